"""Client of a dotresize-server: `dotresize.client.Client`, and the stubs of its API in `dotresize.v1`."""
