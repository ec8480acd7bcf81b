package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// propertiesPath is the key whose value is a text of Kafka's clients.
const propertiesPath = "kafka.properties"

// clientProperty is a property with its place.
type clientProperty struct {
	property
	at origin
}

// properties reads kafka.properties: the text itself, or a reference to it.
func properties() parser[[]clientProperty] {
	return parser[[]clientProperty]{form: "secret", limits: "a Java .properties text, or a reference to it", parse: func(v value) ([]clientProperty, bool) {
		v.hidden = true
		text, ok := v.scalar("the text of a .properties file, or a reference to it such as file://client.properties", "!!str")
		if !ok {
			return nil, false
		}
		entries, err := parseProperties(text)
		if err != nil {
			v.fail("%s", err)
			return nil, false
		}
		if len(entries) == 1 && entries[0].value == "" && !strings.ContainsAny(text, "=:\n") {
			v.fail("is no text of properties: for a file write file:// before its path")
			return nil, false
		}
		found := make([]clientProperty, len(entries))
		for i, entry := range entries {
			// As Kafka's own clients do, by Java's String.trim.
			entry.value = strings.TrimFunc(entry.value, func(r rune) bool { return r <= ' ' })
			found[i] = clientProperty{entry, v.at}
			found[i].at.inner = entry.line
			found[i].at.property = fmt.Sprintf("%s: line %d: %s", propertiesPath, entry.line, shownProperty(entry.key))
		}
		return found, true
	}}
}

// shownProperty returns a property's name as an error may print it. What is no name of Kafka's may be the rest of a
// password whose line lost its backslash.
func shownProperty(name string) string {
	if keyForm.FindString(name) != name {
		return "(not shown)"
	}
	first, _, dotted := strings.Cut(name, ".")
	_, known := findClientKey(name)
	if known || nearestProperty(name) != "" || dotted && slices.Contains([]string{"sasl", "ssl", "security", "bootstrap"}, first) {
		return name
	}
	return "(not shown)"
}

// lend makes the properties values of the keys that they mean. A key that the file or a variable sets wins, and that is
// a notice: who sets both wants one of them changed.
func (l *loader) lend(entries []clientProperty) {
	seen := map[string]clientProperty{}
	void := map[string][]string{}
	for _, entry := range entries {
		row, known := findClientKey(entry.key)
		if !known {
			l.refuseUnknown(entry)
			continue
		}
		first, twice := seen[row.names[0]]
		switch {
		case twice && row.fate == honoured:
			entry.refuse(l, "line %d says it already: keep one", first.line)
		case row.fate == refused:
			entry.refuse(l, "%s", row.note)
		case row.fate == ignored:
			void[row.note] = append(void[row.note], fmt.Sprintf("%s (line %d)", shownProperty(entry.key), entry.line))
		default:
			seen[row.names[0]] = entry
			l.honour(row, entry)
		}
	}
	for _, row := range clientTable {
		if names := void[row.note]; row.fate == ignored && len(names) > 0 {
			l.notice("%s: ignored: %s: %s", propertiesPath, strings.Join(names, ", "), row.note)
		}
	}
	l.checkProtocol(seen)
}

func (l *loader) notice(format string, args ...any) {
	l.notices = append(l.notices, fmt.Sprintf(format, args...))
}

func (p clientProperty) refuse(l *loader, format string, args ...any) {
	l.report(p.at, propertiesPath, propertiesPath, fmt.Sprintf(format, args...))
}

func (l *loader) refuseUnknown(entry clientProperty) {
	text := "no property of Kafka's clients that is known here: leave it out"
	if nearest := nearestProperty(entry.key); nearest != "" {
		text = "no property of Kafka's clients; did you mean " + nearest + "?"
	}
	entry.refuse(l, "%s", text)
}

// honour makes a property the value of the keys that it means.
func (l *loader) honour(row clientKeys, entry clientProperty) {
	if isReference(entry.value) {
		entry.refuse(l, "references are not followed inside of the text: set the key of kafka instead")
		return
	}
	if len(row.must) > 0 {
		if !slices.ContainsFunc(row.must, func(word string) bool { return strings.EqualFold(word, entry.value) }) {
			entry.refuse(l, "%s", row.ours())
		}
		return
	}
	switch row.names[0] {
	case "security.protocol":
		l.honourProtocol(entry)
	case "sasl.jaas.config":
		l.honourJAAS(entry)
	case "bootstrap.servers":
		l.lendValue(row.to, entry, withoutSchemes(entry.value))
	case "isolation.level":
		l.lendValue(row.to, entry, strings.ToLower(entry.value))
	case "fetch.max.wait.ms":
		if _, err := strconv.ParseUint(entry.value, 10, 31); err != nil {
			entry.refuse(l, "must be a number of milliseconds")
			return
		}
		l.lendValue(row.to, entry, entry.value+"ms")
	case "ssl.truststore.certificates", "ssl.keystore.certificate.chain", "ssl.keystore.key":
		l.lendValue(row.to, entry, normalPEM(entry.value))
	default:
		l.lendValue(row.to, entry, entry.value)
	}
}

func (l *loader) lendValue(path string, entry clientProperty, text string) {
	if _, twice := l.lent[path]; twice {
		entry.refuse(l, "%s says it already: keep one", strings.TrimPrefix(l.lent[path].at.property, propertiesPath+": "))
		return
	}
	l.lent[path] = value{loader: l, path: path, at: entry.at, text: text, hidden: true}
}

func (l *loader) honourProtocol(entry clientProperty) {
	protocol := strings.ToUpper(entry.value)
	encrypted := map[string]string{"PLAINTEXT": "false", "SASL_PLAINTEXT": "false", "SSL": "true", "SASL_SSL": "true"}[protocol]
	if encrypted == "" {
		entry.refuse(l, "is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL")
		return
	}
	l.wantsLogin = strings.HasPrefix(protocol, "SASL_")
	l.lendValue("kafka.tls.enabled", entry, encrypted)
}

func (l *loader) honourJAAS(entry clientProperty) {
	login, err := parseJAAS(entry.value)
	if err != nil {
		entry.refuse(l, "%s", err)
		return
	}
	if isReference(login.username) || isReference(login.password) {
		entry.refuse(l, "references are not followed inside of the text: set kafka.sasl.username and kafka.sasl.password instead")
		return
	}
	l.jaasModule = login.module
	l.lendValue("kafka.sasl.username", entry, login.username)
	l.lendValue("kafka.sasl.password", entry, login.password)
}

// checkProtocol refuses a login beside a protocol without one, which Kafka's clients leave out in silence.
func (l *loader) checkProtocol(seen map[string]clientProperty) {
	if _, told := seen["security.protocol"]; !told || l.wantsLogin || !l.fine(propertiesPath) {
		return
	}
	for _, name := range []string{"sasl.mechanism", "sasl.jaas.config", "sasl.username", "sasl.password"} {
		if entry, found := seen[name]; found {
			entry.refuse(l, "has no effect with this security.protocol: write SASL_SSL there, or leave this out")
		}
	}
}

// checkJAAS wants the login module that fits the mechanism, where the login came from it.
func (l *loader) checkJAAS(mechanism string) {
	password := l.origins["kafka.sasl.password"]
	if l.jaasModule == "" || password.property == "" || !l.fine("kafka.sasl.mechanism") || mechanism == "" {
		return
	}
	if fits := map[bool]string{true: plainModule, false: scramModule}[mechanism == "PLAIN"]; fits != l.jaasModule {
		l.report(password, "kafka.sasl.password", "kafka.sasl.password",
			fmt.Sprintf("%s does not fit the mechanism, %s: write %s, or the other mechanism", l.jaasModule, mechanism, fits))
	}
}

var brokerScheme = regexp.MustCompile(`[0-9a-zA-Z._%-]*://`)

// withoutSchemes leaves out what Kafka's clients pass over before a host: SASL_SSL://broker:9092.
func withoutSchemes(brokers string) string { return brokerScheme.ReplaceAllString(brokers, "") }

var pemBlock = regexp.MustCompile(`-+BEGIN\s+([A-Z ]+?)\s*-+([A-Za-z0-9/+=\s]*)-+END\s+[A-Z ]+?\s*-+`)

// normalPEM puts the line ends back that a continued line of a .properties text does not have, and that PEM needs.
// Kafka's own parser takes blanks for them. Any other text is returned as it is.
func normalPEM(text string) string {
	return pemBlock.ReplaceAllStringFunc(text, func(block string) string {
		parts := pemBlock.FindStringSubmatch(block)
		body := strings.Join(strings.Fields(parts[2]), "")
		return fmt.Sprintf("\n-----BEGIN %s-----\n%s\n-----END %s-----\n", parts[1], body, parts[1])
	})
}
