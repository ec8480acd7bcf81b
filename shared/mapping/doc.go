// Package mapping turns Kafka records into the BSON documents that MongoDB stores, or says why a record can never
// become one.
//
// Mapper.Value converts the bytes of one value, Mapper.Convert a whole record: the value, its _id in front, and the
// guard where the _id alone does not prove the origin. Both go from bytes to bytes in one pass. They depend on their
// arguments and the Options only, so the same record gives the same bytes in every run.
//
// Every refusal is a fault of kind Poison whose class is the reason class of the dead letter: malformed-json,
// trailing-data, not-a-document, bad-utf8, bad-field-name, number-out-of-range, duplicate-key, too-deep, too-large,
// bad-date, bad-object-id, bad-decimal, null-value, bad-id. The text names a byte position (from 0, in the value) and,
// where one is concerned, the declared path; it never holds a part of the value.
//
// # Values in format json
//
//   - The text is strict RFC 8259: exactly one value, with at most one byte order mark before it.
//   - An integer literal becomes an int32, else an int64, else a decimal128 if that is exact. A literal with a point or
//     an exponent becomes the nearest double. A number that fits nowhere is refused: nothing wraps or overflows.
//   - Of fields with one name the last value is kept, at the place of the first. Names are compared after unescaping.
//     Also a value that is not kept must be convertible, and counts for the depth.
//   - Names and their order are kept whatever they hold, except U+0000. {"$date": ...} is data.
//   - Invalid UTF-8 and half surrogate pairs are refused, never replaced.
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
// # Limits
//
// 180 levels, where the document is the first, and 16 MiB of BSON: what mongod takes. Memory is bounded also where
// repeated names make the document smaller than its parts: a value whose parts need more than twice the limit is
// refused.
//
// The package reads no Kafka and writes no MongoDB, and it knows neither keys nor collections.
package mapping
