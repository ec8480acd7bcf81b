package mapping

import "strings"

// kind is the type that a field is declared to have.
type kind int

const (
	undeclared kind = iota
	date
	epochSeconds
	objectID
	decimal
)

// node is what is declared of one field: a type, or what is declared of the fields inside. It is read only.
type node struct {
	kind   kind
	path   string // of a field with a type
	fields map[string]*node
	// lengths has a bit for the length of each name in fields, modulo 64: most names that nothing is declared of are
	// told by it alone.
	lengths uint64
}

// child returns what is declared of a field inside, nil where nothing is. A nil node has no declared fields.
func (n *node) child(name []byte) *node {
	if n == nil || n.lengths>>(len(name)&63)&1 == 0 {
		return nil
	}
	return n.fields[string(name)]
}

// declare builds the tree of the declared paths, nil where there are none.
func declare(o Options) (*node, error) {
	var root *node
	for _, list := range []struct {
		option string
		kind   kind
		paths  []string
	}{
		{"dates", date, o.Dates},
		{"epochSeconds", epochSeconds, o.EpochSeconds},
		{"objectIds", objectID, o.ObjectIDs},
		{"decimals", decimal, o.Decimals},
	} {
		for _, path := range list.paths {
			if root == nil {
				root = &node{}
			}
			if o.Format == String || o.Format == Bytes {
				return nil, badMapping("%s: %q is declared, but a value of the format %s has no fields", list.option, path, o.Format)
			}
			if err := root.add(list.option, path, list.kind, o); err != nil {
				return nil, err
			}
		}
	}
	return root, nil
}

func (n *node) add(option, path string, k kind, o Options) error {
	names := strings.Split(path, ".")
	if names[0] == o.GuardField || names[0] == o.Metadata {
		return badMapping("%s: %q is the field of the guard or of the metadata: it is never converted", option, path)
	}
	for _, name := range names {
		if name == "" || !plainName(name) {
			return badMapping("%s: %q is no dotted path of field names", option, path)
		}
		if n.kind != undeclared {
			return badMapping("%s: %q goes into %q, which is declared to be no sub-document", option, path, n.path)
		}
		inside := n.fields[name]
		if inside == nil {
			inside = &node{}
			if n.fields == nil {
				n.fields = map[string]*node{}
			}
			n.fields[name] = inside
			n.lengths |= 1 << (len(name) & 63)
		}
		n = inside
	}
	if n.kind != undeclared && n.kind != k || n.fields != nil {
		return badMapping("%s: %q is declared twice, with different types", option, path)
	}
	n.kind, n.path = k, path
	return nil
}
