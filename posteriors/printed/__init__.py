"""Tables as packages print them: from their text to what of the records they determine."""
