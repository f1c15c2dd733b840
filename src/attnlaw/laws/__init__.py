"""Limiting spectra as objects, and the algebra of free probability on them."""

from attnlaw.laws.binning import BinnedSpectrum, bin_spectrum, ks_distance, logarithmic_bins
from attnlaw.laws.causal import CausalLaw
from attnlaw.laws.causal_profile import CausalProfile
from attnlaw.laws.causal_profile_law import CausalProfileLaw
from attnlaw.laws.discrete import Discrete
from attnlaw.laws.free_profile import FreeProfile
from attnlaw.laws.law import Atom, Law
from attnlaw.laws.marchenko_pastur import MarchenkoPastur
from attnlaw.laws.profile import VarianceProfile
from attnlaw.laws.profile_law import ProfileLaw
from attnlaw.laws.semicircle import Semicircle
from attnlaw.laws.separable import SeparableLaw

__all__ = [
    "Atom",
    "BinnedSpectrum",
    "CausalLaw",
    "CausalProfile",
    "CausalProfileLaw",
    "Discrete",
    "FreeProfile",
    "Law",
    "MarchenkoPastur",
    "ProfileLaw",
    "Semicircle",
    "SeparableLaw",
    "VarianceProfile",
    "bin_spectrum",
    "ks_distance",
    "logarithmic_bins",
]
