"""Which micro-benchmarks make which roof, what they gave, how they are checked, and where they are kept.

``benchmark`` is the plan, ``assembly`` makes roofs of results, ``store`` measures what is missing and keeps it,
``sustained``, ``instructions`` and ``counted`` look at the same kernels in other ways; ``python -m roofexp.roofs``
prints all of it. Importing this is cheap.
"""
