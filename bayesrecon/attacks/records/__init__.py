"""Individual records: a known design, one record a unit, a private response.

`rows` says what is unknown on each known row, `slots` which parameters a row touches, `system` turns the release into
linear equations for the rows' unknown features. They are solved as one array (`dense`) or, for large tables, as a sum
of block-diagonal layers (`layers`, with `blocks` and `conjugate`). `noise` is the law of the solution's errors,
`decode` and `decode_layers` weigh the legal values of each row against it, `doubts` looks for rival tables, `attack`
puts them together, and the result is a `RecordTable`.
"""
