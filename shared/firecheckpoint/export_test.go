package firecheckpoint

// What the external tests need of the package; they are external because package pulltest may import others like it.
var (
	Decode = decode
	Encode = encode

	DecodePipeline = decodePipeline
	EncodePipeline = encodePipeline
)
