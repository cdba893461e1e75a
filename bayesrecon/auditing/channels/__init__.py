"""The channels of an audit that need a model, one module each.

To add one, add a file that defines `CHANNEL = Channel("...", find, rank, "model")` (`bayesrecon.auditing.look`).
"""
