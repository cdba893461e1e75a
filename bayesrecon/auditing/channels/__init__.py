"""What an audit attacks in a file, one module a channel: a new one is one new file here that has `CHANNEL`.

`CHANNEL = Channel(name="...", attack=..., rank=...)` of `bayesrecon.auditing.channel` is all that is asked of it:
`audit` finds the modules of this folder itself and runs them by rank.
"""
