"""Saved objects of Python (pickles, joblib, skops, torch, safetensors): what is in them, and which are fits."""
