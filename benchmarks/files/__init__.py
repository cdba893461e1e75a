"""Files: audits, damaged and hostile ones, saved objects."""
