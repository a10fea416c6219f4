"""Files of lines, decoded outside the JVM.

`local` plans it on the driver, `splits` cuts and reads files, `tasks` is what workers are told. There,
`batches` makes Arrow batches of what the decoders give: fast in bulk, and exact where in doubt.
"""
