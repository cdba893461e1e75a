"""Individual records: a known design, one record per unit, a private response.

`rows` says what is unknown on each known row and which parameters the row touches. `system` turns the release into
linear equations for the rows' unknown features. They are solved as one array or, for large tables, as a sum of
block-diagonal layers (`blocks`). `solution_noise` is the distribution of the solution's errors, from which `decode`
computes the probabilities of the legal values of each row. `attack` combines all of these, calibrates the probabilities
on simulated tables, and looks for units that are not in the data. The result is a `RecordTable`.
"""
