"""Files of R (`saveRDS`, `save`): what is in them, item by item, and what of it is draws or estimates."""
