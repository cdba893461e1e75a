"""May this file be published? An audit finds copies of data, attacks side channels, and measures remedies."""
