// Package tidemark is the root of the uploaded module: the Go functions buildpack looks at this package only. Importing
// the framework's functions package here selects the template that starts the function named by FUNCTION_TARGET.
package tidemark

import (
	_ "github.com/GoogleCloudPlatform/functions-framework-go/functions" // see above

	_ "github.com/tidemark/tidemark/functions/ingest" // registers Ingest
)
