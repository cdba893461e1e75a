"""The channels of an audit that need no model, one module each.

To add one, add a file that defines `CHANNEL = Channel("...", find, rank)` (`bayesrecon.auditing.look`).
"""
