// Package mapping turns Kafka records into the BSON documents that MongoDB stores, or says why a record can never
// become one.
//
// Mapper.Convert makes the write of a whole record: the value's fields, an _id in front, metadata where they are asked
// for, and the guard where the _id alone does not prove the origin. Mapper.Value converts the bytes of a value only.
// Both go from bytes to bytes in one pass. They depend on their arguments and the Options only, so the same record gives
// the same bytes in every run.
//
// Every refusal is a fault of kind Poison whose class is the reason class of the dead letter: malformed-json,
// bad-extjson, malformed-bson, trailing-data, not-a-document, bad-utf8, bad-field-name, number-out-of-range,
// duplicate-key, too-deep, too-large, bad-date, bad-object-id, bad-decimal, null-value, no-key, bad-key, id-conflict,
// bad-id. The text names a byte position (from 0, in the value or the key) and, where one is concerned, the configured
// path; it never holds a part of the value or the key.
//
// # Format json
//
//   - The text is strict RFC 8259: exactly one value, with at most one byte order mark before it.
//   - An integer literal becomes an int32, else an int64, else a decimal128 if that is exact. A literal with a point or
//     an exponent becomes the nearest double. A number that fits nowhere is refused: nothing wraps or overflows.
//   - Of fields with one name the last value is kept, at the place of the first. Names are compared after unescaping.
//     Also a value that is not kept must be convertible, and counts for the depth.
//   - Names and their order are kept whatever they hold, except U+0000. {"$date": ...} is data.
//   - Invalid UTF-8 and half surrogate pairs are refused, never replaced.
//   - A value that is no object is refused, or stored under the name of Wrap.
//
// # Format extjson
//
// MongoDB Extended JSON v2, relaxed and canonical, is json with wrappers: an object inside the document with one of the
// names $oid, $numberInt, $numberLong, $numberDouble, $numberDecimal, $date, $binary, $uuid, $regularExpression,
// $timestamp, $minKey, $maxKey, $undefined, $symbol, $code (also with $scope) and $dbPointer stands for a value of that
// type. As the specification asks:
//
//   - It must have exactly the fields of its kind, in any order, with values that fit, else it is refused
//     (bad-extjson). Legacy forms such as {"$date": 42} and {"$binary": "", "$type": "00"} are such misfits.
//   - Any other name with a $ is data, also $ref, $id and $db of a DBRef, which may hold wrappers. The document itself is
//     no wrapper.
//   - Numbers in texts have JSON's form; $numberDouble also takes NaN, Infinity and -Infinity, $numberDecimal what the
//     specification of decimal128 takes. Nothing is rounded into a decimal128.
//   - The text of a $date is as in declared dates. The base64 of $binary is padded, the text of $uuid has its hyphens. The
//     options of a regular expression are sorted, as BSON asks.
//   - A wrapper is no level, but code with a scope is one, with the scope below it.
//
// # Format bson
//
// The value is one BSON document, which is checked as a whole: lengths, types, booleans, UTF-8, depth. What is valid is
// kept byte for byte, also array elements of odd names and options of regular expressions in odd order. Repeated names
// follow the rule of json; elements of an array have no names in that sense.
//
// # Formats string and bytes
//
// The value is stored under the name of Wrap, or "value", and is not parsed: a string, which must be UTF-8, or a binary
// of subtype 0. Nothing can be declared of it.
//
// # Declared fields
//
// A path goes by its dots into sub-documents, and into every element of an array, also of arrays in arrays. It does not
// name elements of an array by number, nor fields whose own name holds a dot. Absent stays absent, null stays null, and
// any other value must fit:
//
//   - Dates are RFC 3339 text (section 5.6 with its lower-case t and z; no second 60; no blank for the T) or
//     milliseconds since 1970. Fraction digits beyond milliseconds are dropped, which goes back in time before 1970 as
//     after it.
//   - EpochSeconds are seconds since 1970. A number in a date is an integer literal: 1e3 and 1.5 are refused, since
//     what wrote them did not count whole units.
//   - ObjectIDs are text of 24 hex digits in either case.
//   - Decimals are numbers or decimal text (an optional sign, digits with or without a point, an optional exponent).
//     Digits and scale are kept; trailing zeros are dropped or added only where decimal128 has no other exact form.
//     A number that has no exact form is refused.
//
// In extjson and bson a value that has the declared type already stays as it is, also a date under EpochSeconds.
// Strings, int32 and int64 convert as texts and integer literals of JSON do. A double does not: it counts nothing whole
// and has no decimal digits to keep.
//
// # The _id
//
// Keys have the formats of values, and any value of json or extjson may be one, also a scalar or a wrapper; a key of
// bson is a document. Order and types of its fields are kept; nothing is declared of them. A key that cannot be read is
// refused (bad-key, with the reason), a null one too (no-key), whether Kafka has none or the key is the null of JSON.
//
//   - FromKey: the whole key.
//   - FromKeyField: a field of the key, by its path into sub-documents. A key that is no document is bad-key, an absent
//     or null field no-key.
//   - FromFields: fields of the value, by their paths into sub-documents, after the declared conversion. An absent or
//     null field is no-key, also where the path meets an array.
//   - FromCoordinates: "topic/partition/offset", unless the value has an _id.
//
// An _id of the value beside a rule must be the same, type and bytes: 1 is not 1.0, and a text is no ObjectID, although a
// declared field may have made one of it. Anything else is refused (id-conflict).
//
// # Metadata
//
// The field is the last before the guard, and replaces one of that name in the value:
//
//	{topic: string, partition: int32, offset: int64, timestamp: date, key: any, headers: [{key: string, value: string}]}
//
// The key is as its format converts it, binary where it cannot be converted (or would be too deep there), null where it
// is null. Names and values of headers are strings where they are UTF-8, else binary; a null value is null. A Delete
// has none.
//
// # Limits
//
// 180 levels, where the document is the first, and 16 MiB of BSON with _id, metadata and guard: what mongod takes. Memory
// is bounded also where repeated names make the document smaller than its parts: a value whose parts need more than
// twice the limit is refused.
//
// The package reads no Kafka, writes no MongoDB, and knows no collections.
package mapping
