"""Limiting spectra as objects, and the algebra of free probability on them.

- `law`: what every law provides (`Law`): density, cdf, quantile, support, atoms, moments,
  Stieltjes transform, samples; and the algebra, ``A @ B`` for A ⊠ B and ``A + B`` for A ⊞ B.
- `classical`: the laws from which others are made: Marchenko–Pastur, semicircle, atoms.
- `separable`: matrices whose rows and columns differ in scale, with hundreds of atoms.
- `profile`, `free_profile` and the law of both, `profile_law`; `causal_profile` with its law, and
  `causal_equations`: variance profiles, such as those of attention heads.
- `free_power`: ν ⊠ … ⊠ ν, such as products of layers.
- `cavity`: matrices with heavy rows, such as heads at large inverse temperatures.
- `attention`: closed forms of attention heads, without and with a mask.
- `outliers`: spike → outlier → overlap right of any bulk.
- `finite_spectra`: a spectrum beside a law: the Kolmogorov–Smirnov distance, histograms, and the
  Tracy–Widom fluctuations of the largest eigenvalue.
- `_engine`: how free convolutions are evaluated; its docstring is a map.
"""

from attnlaw.laws._engine.free import ClosedFormLaw, FreeLaw
from attnlaw.laws.attention import AttentionBulk, CausalLaw
from attnlaw.laws.causal_profile import CausalProfile, CausalProfileLaw
from attnlaw.laws.cavity import CavityLaw, HeavyRows
from attnlaw.laws.classical import Discrete, MarchenkoPastur, Semicircle
from attnlaw.laws.finite_spectra import (
    BinnedSpectrum,
    bin_spectrum,
    ks_distance,
    logarithmic_bins,
)
from attnlaw.laws.free_power import FreePower
from attnlaw.laws.free_profile import FreeProfile
from attnlaw.laws.law import Atom, Law, MixtureLaw
from attnlaw.laws.profile import VarianceProfile, profile_resolvents
from attnlaw.laws.profile_law import ProfileLaw
from attnlaw.laws.separable import SeparableLaw

__all__ = [
    "Atom",
    "AttentionBulk",
    "BinnedSpectrum",
    "CausalLaw",
    "CausalProfile",
    "CausalProfileLaw",
    "CavityLaw",
    "ClosedFormLaw",
    "Discrete",
    "FreeLaw",
    "FreePower",
    "FreeProfile",
    "HeavyRows",
    "Law",
    "MarchenkoPastur",
    "MixtureLaw",
    "ProfileLaw",
    "Semicircle",
    "SeparableLaw",
    "VarianceProfile",
    "bin_spectrum",
    "ks_distance",
    "logarithmic_bins",
    "profile_resolvents",
]
