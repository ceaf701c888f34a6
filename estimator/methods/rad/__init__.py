"""RAD's own estimate: an explicit account of a step's memory, a learned correction on top, a calibrated upper bound."""

from estimator.methods.rad.method import NAME, Rad, within

__all__ = ["NAME", "Rad", "within"]
