package fault

import (
	"errors"
	"fmt"
)

// Kind says what an error means for a run.
type Kind int

const (
	// Transient may succeed when tried again: network, throttling, an election. It is the kind of every error that
	// nobody classified.
	Transient Kind = iota
	// Poison is about one record, which can never succeed. It becomes a dead letter and the run goes on.
	Poison
	// Conflict says that another run holds, or took, the lane. The run stops and writes nothing more.
	Conflict
	// Fatal needs a person: bad configuration, refused credentials, data loss under onDataLoss: fail.
	Fatal
)

// String returns the kind's name as it stands in logs and reports.
func (k Kind) String() string {
	switch k {
	case Transient:
		return "transient"
	case Poison:
		return "poison"
	case Conflict:
		return "conflict"
	case Fatal:
		return "fatal"
	}
	return fmt.Sprintf("kind(%d)", int(k))
}

// Error is an error with its kind and, where a caller or a report branches on it, a class such as
// "offset-before-log-start".
type Error struct {
	Kind  Kind
	Class string
	Err   error
}

// Error returns the wrapped error's text: kind and class are for programs.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// Transientf formats a Transient error; %w wraps.
func Transientf(format string, args ...any) error {
	return &Error{Kind: Transient, Err: fmt.Errorf(format, args...)}
}

// Conflictf formats a Conflict error; %w wraps.
func Conflictf(format string, args ...any) error {
	return &Error{Kind: Conflict, Err: fmt.Errorf(format, args...)}
}

// Fatalf formats a Fatal error of a class; %w wraps.
func Fatalf(class, format string, args ...any) error {
	return &Error{Kind: Fatal, Class: class, Err: fmt.Errorf(format, args...)}
}

// Poisonf formats a Poison error of a class, which is the reason class of its dead letter; %w wraps.
func Poisonf(class, format string, args ...any) error {
	return &Error{Kind: Poison, Class: class, Err: fmt.Errorf(format, args...)}
}

// KindOf returns the kind of the outermost Error in err's chain, Transient where there is none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Transient
}

// ClassOf returns the class of the outermost Error in err's chain, "" where there is none.
func ClassOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return ""
}
