"""May this file be published? Side channels run as attacks, plain copies found, remedies measured."""
