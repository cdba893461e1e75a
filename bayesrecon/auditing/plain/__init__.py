"""The channels of an audit that need no model, one module each.

To add one, add a file that defines `PLAIN = Plain(name="...", find=..., rank=...)` (`bayesrecon.auditing.look`).
"""
