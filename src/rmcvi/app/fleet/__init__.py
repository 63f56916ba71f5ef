"""Many streams in one source: shards that each learn their part, and what drives them."""
