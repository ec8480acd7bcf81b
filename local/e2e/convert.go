package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// document is a second reading of the rules for JSON, made of other parts than the function's: encoding/json for the
// text, math/big for the numbers, the driver for the BSON. It is slow, and knows no declared fields.
func document(id any, value []byte) (bson.Raw, error) {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	read, err := next(decoder)
	if err != nil {
		return nil, err
	}
	fields, ok := read.(bson.D)
	if !ok {
		return nil, fmt.Errorf("the value is a %T", read)
	}
	doc, err := bson.Marshal(append(bson.D{{Key: "_id", Value: id}}, fields...))
	if err != nil {
		return nil, fmt.Errorf("encoding a document: %w", err)
	}
	return doc, nil
}

func next(decoder *json.Decoder) (any, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '[' {
			return array(decoder)
		}
		return object(decoder)
	case json.Number:
		return number(v.String())
	default:
		return v, nil // a string, a boolean or null
	}
}

func array(decoder *json.Decoder) (any, error) {
	out := bson.A{}
	for decoder.More() {
		v, err := next(decoder)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := decoder.Token()
	if err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	return out, nil
}

func object(decoder *json.Decoder) (any, error) {
	out := bson.D{}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("reading JSON: %w", err)
		}
		v, err := next(decoder)
		if err != nil {
			return nil, err
		}
		out = append(out, bson.E{Key: fmt.Sprint(name), Value: v})
	}
	_, err := decoder.Token()
	if err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	return out, nil
}

func number(literal string) (any, error) {
	if strings.ContainsAny(literal, ".eE") {
		f, err := strconv.ParseFloat(literal, 64)
		if err != nil {
			return nil, fmt.Errorf("reading a number: %w", err)
		}
		return f, nil
	}
	n, ok := new(big.Int).SetString(literal, 10)
	if !ok || !n.IsInt64() {
		return nil, errors.New("the number is beyond 64 bits, of which the datasets have none")
	}
	if i := n.Int64(); int64(int32(i)) != i {
		return i, nil
	}
	return int32(n.Int64()), nil
}
