"""What a thing is in a fit that was saved as its program holds it, where its reader knows that.

A role says what is to be done with values, never that they are harmless: `STRUCTURE` is given by value, to texts and
numbers that any fit of its kind has.
"""

RECORD = "record"
"""A value, or a row, for each record: the data, and what was computed from each of them."""

DESIGN = "design"
"""Numbers that rows of the design follow from, such as the triangular and orthogonal factors of it."""

TIMES = "times"
"""Times at which something happened to somebody."""

LEAF = "leaf"
"""What a tree keeps of the records that came to one place."""

CUT = "cut"
"""Where a tree divides: midway between the values of two records."""

TOTAL = "total"
"""Exact sums, means, medians or counts of records."""

ESTIMATE = "estimate"
"""Estimates, their covariance, and what follows from them."""

SEED = "seed"
"""The state of a generator of random numbers."""

CODE = "code"
"""A call, a formula or a function that holds more than names and options."""

STRUCTURE = "structure"
"""What every fit of its kind has, whatever its data."""
