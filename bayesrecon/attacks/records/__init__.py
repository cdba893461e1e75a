"""Individual records: a known design, one record per unit, a private response.

`rows` says what is unknown on each known row, `slots` which parameters a row touches, `system` turns the release into
linear equations for the rows' unknown features. They are solved as one array (`dense`) or, for large tables, as a sum
of block-diagonal layers (`layers`, with `blocks` and `conjugate`). `solution_noise` is the distribution of the
solution's errors. `decode` and `decode_layers` compute the probabilities of the legal values of each row from it.
`rival_tables` searches for tables that are about as likely, `calibration` calibrates the probabilities on simulated
tables, and `attack` combines all of these. The result is a `RecordTable`.
"""
