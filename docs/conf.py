"""How the documentation is built: MyST pages, a gallery that runs, mathematics offline."""

import sys
from pathlib import Path

import matplotlib
from sphinx_gallery.sorting import ExplicitOrder

import attnlaw
from attnlaw.plotting import style

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_extensions"), str(HERE.parent / "tests" / "support")]

project = "attnlaw"
author = "The attnlaw developers"
copyright = "2026, the attnlaw developers"
version = release = attnlaw.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "matplotlib.sphinxext.plot_directive",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_click",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
    "living_pages",
    "typeset",
]

# The pages
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
templates_path = ["_templates"]
exclude_patterns = ["_build", "gallery/**/*.ipynb", "gallery/**/*.zip"]
nitpicky = False
suppress_warnings = ["config.cache"]

# The reference
autosummary_generate = True
autodoc_typehints = "none"
default_role = "py:obj"  # `predict` in a docstring is code, and a link where there is a page
numpydoc_show_class_members = False
numpydoc_xref_param_type = True  # types of arguments and results are links
numpydoc_xref_aliases = {
    name: f"attnlaw.{name}" for name in attnlaw.__all__ if name[0].isupper()
} | {name: f"attnlaw.results.{name}" for name in attnlaw.results.__all__ if name[0].isupper()}
words = ("True", "False", "None", "bool", "boolean", "sequence", "iterable", "integer", "string")
words += ("float", "int", "str", "list", "tuple", "dict", "object", "callable", "generator")
numpydoc_xref_aliases |= {word: word for word in words}  # not links into Python's own pages
numpydoc_xref_aliases |= {"Law": "attnlaw.laws.Law", "Comparison": "attnlaw.comparison.Comparison"}
numpydoc_xref_ignore = {
    *("a", "all", "an", "and", "any", "array", "arrays", "as", "at", "axes", "by", "callable"),
    *("each", "for", "from", "in", "item", "like", "mapping", "matplotlib", "matrix", "name"),
    *("names", "numbers", "of", "on", "one", "optional", "or", "sequence", "several", "shape"),
    *("single", "that", "the", "to", "two", "with", "Axes", "Figure", "Generator"),
}

# Figures made while the pages are built
plot_include_source = True
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("svg", 100)]
plot_pre_code = "import numpy as np\nimport matplotlib.pyplot as plt\nimport attnlaw as al"
sheet = Path(style.__file__).with_name("attnlaw.mplstyle")
plot_rcparams = dict(matplotlib.rc_params_from_file(sheet, use_default_template=False))
plot_apply_rcparams = True

TUTORIALS = ["1_theorist", "2_practitioner", "3_interpretability"]
GALLERY = [
    "phase_transition",
    "bulk_and_outlier",
    "pooling_weights",
    "phase_diagram",
    "ceiling",
    "accuracy",
    "attention_head",
    "free_convolutions",
    "sweep",
]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "within_subsection_order": ExplicitOrder(
        [f"plot_{name}.py" for name in (*TUTORIALS, *GALLERY)] + ["*"],
    ),
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_.*\.py",
    "ignore_pattern": r"(__init__|conf)\.py",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1,
    "remove_config_comments": True,
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = f"attnlaw {version}"
html_static_path = ["_static"]
html_css_files = ["attnlaw.css"]
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": True,
    "show_nav_level": 2,
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 5,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}


def setup(app):
    """Let two processes read the pages: one extension, which names a file, leaves that open."""
    app.extensions["sphinx-mathjax-offline"].parallel_read_safe = True
