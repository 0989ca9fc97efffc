"""The variational engine for data in shards: workers see one shard at a time, sums and vectors come
back."""
