"""What an audit looks for without a model, one module a channel: a new one is one new file here that has `PLAIN`.

`PLAIN = Plain(name="...", find=..., rank=...)` of `bayesrecon.auditing.look` is all that is asked of it.
"""
