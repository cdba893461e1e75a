"""The channels of an audit, one module each.

To add a channel, add a file that defines `CHANNEL = Channel(name="...", attack=..., rank=...)`
(`bayesrecon.auditing.channel`). `audit` finds the modules of this folder and runs them by rank.
"""
