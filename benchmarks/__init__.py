"""Programs that measure, run as `python -m benchmarks.topic.program`; pages and rows lie here."""
