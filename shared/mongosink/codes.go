package mongosink

import (
	"context"
	"errors"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tidemark/tidemark/shared/fault"
)

// Reason classes of dead letters that the server, or a last check before it, decides.
const (
	classDuplicateKey   = "duplicate-key"
	classValidation     = "validation"
	classTooLarge       = "too-large"
	classTooDeep        = "too-deep"
	classBadID          = "bad-id"
	classBadFieldName   = "bad-field-name"
	classMalformed      = "malformed-bson"
	classGeo            = "bad-geometry"
	classTextLanguage   = "bad-text-language"
	classHashedArray    = "hashed-array"
	classParallelArrays = "parallel-arrays"
	// classRejected is for codes that are in no table: inside writeErrors they are about the document.
	classRejected = "rejected"
)

// Codes that are branched on. All are from MongoDB's error_codes.yml, or from its sources where they have no name.
const (
	codeUnauthorized         = 13
	codeAuthenticationFailed = 18
	codeAtlas                = 8000
	codeDuplicateKey         = 11000
	codeConversion           = 241 // ConversionFailure: nothing but the fence of a lease converts
)

type verdict struct {
	kind  fault.Kind
	class string
}

// writeVerdict judges a code inside writeErrors. It is about the document unless it is about the server: an unknown
// code is poison, because retrying it would stop the pipeline for ever.
func writeVerdict(code int) verdict {
	switch code {
	case 121: // DocumentValidationFailure
		return verdict{fault.Poison, classValidation}
	case codeDuplicateKey:
		return verdict{fault.Poison, classDuplicateKey}
	case 53: // InvalidIdField
		return verdict{fault.Poison, classBadID}
	case 52, 55, 56, 57: // DollarPrefixedFieldName, InvalidDBRef, EmptyFieldName, DottedFieldName
		return verdict{fault.Poison, classBadFieldName}
	case 66: // ImmutableField: the document would change the _id it was found by
		return verdict{fault.Poison, classBadID}
	case 2, 14: // BadValue, TypeMismatch: said of values in a document, since our programs are the same for all
		return verdict{fault.Poison, classRejected}
	case 15: // Overflow: nesting
		return verdict{fault.Poison, classTooDeep}
	case 116, 10334, 17280, 17419, 17420: // DocTooLargeForCapped, BSONObjectTooLarge, KeyTooLong, resulting document too large
		return verdict{fault.Poison, classTooLarge}
	case 22, 357, 378: // InvalidBSON, InvalidBSONType, NonConformantBSON
		return verdict{fault.Poison, classMalformed}
	case 16755, 16756, 16804, 13022, 13023, 13026, 13027, 13068: // 2dsphere and 2d index keys
		return verdict{fault.Poison, classGeo}
	case 17261, 17262: // text index: language is no string, language is not known
		return verdict{fault.Poison, classTextLanguage}
	case 16766, 16242: // hashed index on an array
		return verdict{fault.Poison, classHashedArray}
	case 171: // CannotIndexParallelArrays
		return verdict{fault.Poison, classParallelArrays}
	case codeUnauthorized, codeAuthenticationFailed:
		return verdict{fault.Fatal, classAuth}
	case 20, 73, 166: // IllegalOperation, InvalidNamespace, CommandNotSupportedOnView
		return verdict{fault.Fatal, classNamespace}
	}
	if environmental(code) {
		return verdict{fault.Transient, ""}
	}
	return verdict{fault.Poison, classRejected}
}

// environmental says whether a code is about the server, its disk, its load or its replica set.
func environmental(code int) bool {
	switch code {
	case 6, 7, 89, 202, 317, 384, 407, 450, 9001: // hosts, network, connection pools
	case 24, 46, 107, 208: // LockTimeout, LockBusy, LockFailed, TooManyLocks
	case 50, 262, 290: // MaxTimeMSExpired, ExceededTimeLimit, TransactionExceededLifetimeLimitSeconds
	case 64, 75, 79, 100: // write concern
	case 91, 94, 95, 189, 216, 10058, 10107, 11600, 11602, 13435, 13436: // shutdown, elections, not primary
	case 11601, 90, 237, 279, 355: // interrupted, cancelled, killed
	case 112, 117, 215, 221, 246, 267, 272, 276, 314, 365: // WriteConflict and others that pass by themselves
	case 63, 149, 150, 203, 227, 249, 250, 319, 338, 342, 343, 13388: // sharding: stale routing, resharding, migration
	case 14031, 12501, 264, 146, 292, 402, 388, 433, 449: // disk, quota, files, memory, overload
	case 371, codeAtlas: // UserWritesBlocked; Atlas: quota and limits
	case 8, 83, 96, 141, 172, 26: // unknown, remote results, transport, a collection dropped meanwhile
	default:
		return false
	}
	return true
}

// commandVerdict judges a code of a whole command. An unknown one is transient. Poison means that one of the documents
// made the server refuse all of them: it could not even read the command.
func commandVerdict(code int, message string) verdict {
	switch code {
	case codeUnauthorized, codeAuthenticationFailed, 11, 214, 334, 391: // UserNotFound, AuthenticationRestrictionUnmet, mechanism
		return verdict{fault.Fatal, classAuth}
	case codeAtlas:
		// Atlas has one code for everything; only these two need a person.
		if strings.Contains(message, "bad auth") || strings.Contains(message, "not allowed") {
			return verdict{fault.Fatal, classAuth}
		}
	case 20, 59, 73, 115, 166: // IllegalOperation, CommandNotFound, InvalidNamespace, CommandNotSupported, a view
		return verdict{fault.Fatal, classNamespace}
	case 15, 16, 22, 357, 378, 10334, 13548: // depth, length, invalid BSON, too large, buffer exceeded
		return verdict{fault.Poison, ""}
	}
	return verdict{fault.Transient, ""}
}

// failed turns an error of the driver into ours. The text of a server's error is left out, since it may hold values;
// the text of a network error holds addresses only.
func (s *Sink) failed(ctx context.Context, doing string, err error) error {
	if ended := ctx.Err(); ended != nil {
		return fault.Transientf("%s: %w", doing, ended)
	}
	var refused mongo.CommandError
	if errors.As(err, &refused) && refused.Code != 0 {
		code := int(refused.Code)
		return s.refusedCommand(doing, code, refused.Name, commandVerdict(code, refused.Message))
	}
	switch {
	case errors.Is(err, mongo.ErrClientDisconnected):
		return fault.Transientf("%s: the connections were closed meanwhile", doing)
	case mongo.IsTimeout(err), mongo.IsNetworkError(err), isSelectionError(err):
		return fault.Transientf("%s: MongoDB at %s does not answer: %s: check that it runs, and that this network and its "+
			"access list let us through", doing, s.hosts, s.redacted(err))
	}
	return fault.Transientf("%s: the driver gave up with a %T", doing, err)
}

func (s *Sink) refusedCommand(doing string, code int, name string, v verdict) error {
	switch {
	case v.kind == fault.Fatal && v.class == classAuth:
		return fault.Fatalf(v.class, "%s: MongoDB at %s refused us (code %d, %s): check user, password and authSource in the URI's "+
			"secret; the user needs the role readWrite on database %s, or at least the actions %s there",
			doing, s.hosts, code, name, s.options.Database, s.options.actions())
	case v.kind == fault.Fatal:
		return fault.Fatalf(v.class, "%s: MongoDB refused the command (code %d, %s): check the names of database and collection, "+
			"and that it is no view", doing, code, name)
	}
	return fault.Transientf("%s: MongoDB answered with code %d (%s)", doing, code, name)
}

// refusedWrite is the error for a code inside writeErrors that is not about the document.
func (s *Sink) refusedWrite(doing string, code int, v verdict) error {
	return s.refusedCommand(doing, code, "for one document", v)
}

// isSelectionError: the driver's type lives in a package without promises, its text has been the same since v1.
func isSelectionError(err error) bool { return strings.Contains(err.Error(), "server selection error") }

const maxErrorText = 400

// redacted returns an error's text as one line without the password.
func (s *Sink) redacted(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if s.password != "" {
		text = strings.ReplaceAll(text, s.password, "***")
	}
	return cut(text, maxErrorText)
}
