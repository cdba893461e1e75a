"""Individual records: a known design, one record a unit, a private response.

`rows` says what is unknown on each known row, `slots` which parameters a row touches, `system` turns the release into
linear equations for the rows' unknown features, `decode` weighs the legal values of each row against the noise of that
solution, `attack` puts them together, and the result is a `RecordTable`.
"""
