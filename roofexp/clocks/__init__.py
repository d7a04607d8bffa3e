"""Clock modes: what is asked of a device's clocks, who may ask it, and how it is undone.

Nothing here is reached by a run that does not say clock=base, clock=boost or clock=locked, but for the undoing of what
an earlier run left behind.
"""
