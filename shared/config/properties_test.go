package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The cases follow the text of java.util.Properties.load.
func TestParseProperties_ReadsAsJavaDoes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		want       []property
	}{
		{"the three ways to separate", "a=1\nb:2\nc 3\nd\t4\ne\f5", []property{{"a", "1", 1}, {"b", "2", 2}, {"c", "3", 3}, {"d", "4", 4}, {"e", "5", 5}}},
		{"blanks around the separator", "  Truth = Beauty\n  Truth:Beauty\nTruth \t: Beauty", []property{{"Truth", "Beauty", 1}, {"Truth", "Beauty", 2}, {"Truth", "Beauty", 3}}},
		{"one separator only", "a==1\nb=:2\nc : = 3", []property{{"a", "=1", 1}, {"b", ":2", 2}, {"c", "= 3", 3}}},
		{"no value", "cheeses\na=\nb =  ", []property{{"cheeses", "", 1}, {"a", "", 2}, {"b", "", 3}}},
		{"no key", "=1\n:2", []property{{"", "1", 1}, {"", "2", 2}}},
		{"blanks at the end stay", "a=1 \t", []property{{"a", "1 \t", 1}}},
		{"comments", "# a=1\n ! b=2\n#c=3\\\nd=4\ne=5#6", []property{{"d", "4", 4}, {"e", "5#6", 5}}},
		{"continued lines", "fruits  apple, banana, pear, \\\n          cantaloupe, \\\n\t\tmango\nb=2", []property{{"fruits", "apple, banana, pear, cantaloupe, mango", 1}, {"b", "2", 4}}},
		{"a continued key", "a\\\n  b=1", []property{{"ab", "1", 1}}},
		{"an even number of backslashes ends the line", "a=1\\\\\nb=2", []property{{"a", `1\`, 1}, {"b", "2", 2}}},
		{"three backslashes", "a=1\\\\\\\nb=2", []property{{"a", `1\b=2`, 1}}},
		{"no comment inside of a continued line", "a=1\\\n#2", []property{{"a", "1#2", 1}}},
		{"an empty line ends a continued one", "a=1\\\n\nb=2", []property{{"a", "1", 1}, {"b", "2", 3}}},
		{"a backslash alone", "\\\n# a comment\nb=2", []property{{"b", "2", 3}}},
		{"a backslash at the end of all", "a=1\\", []property{{"a", "1", 1}}},
		{"line ends of all systems", "a=1\r\nb=2\rc=3\\\r\n  4", []property{{"a", "1", 1}, {"b", "2", 2}, {"c", "34", 3}}},
		{"escapes", `a\=\:\ b=\t\n\r\f\q\"\\`, []property{{"a=: b", "\t\n\r\fq\"\\", 1}}},
		{"escapes of Unicode", `a=\u00e9\u20AC\uD83D\uDE00`, []property{{"a", "é€😀", 1}}},
		{"UTF-8", "a=é€😀", []property{{"a", "é€😀", 1}}},
		{"Latin-1", "a=caf\xe9", []property{{"a", "café", 1}}},
		{"a byte order mark", "\ufeffa=1", []property{{"a", "1", 1}}},
		{"twice", "a=1\na=2", []property{{"a", "1", 1}, {"a", "2", 2}}},
		{"nothing", "\n  \n# a\n", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseProperties(test.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(property{})); diff != "" {
				t.Errorf("%q (-want +got):\n%s", test.text, diff)
			}
		})
	}
}

func TestParseProperties_MalformedEscapesHaveALine(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`a=hunter2\u12`, `a=\u12g4hunter2`, `a\u=1`, `a=\uD83Dx`, `a=\uDE00\uD83D`, `a=\uD83D\u0041`, `a=\u+123`} {
		_, err := parseProperties("# first\n" + text)
		if err == nil || !strings.HasPrefix(err.Error(), "line 2: ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestParseJAAS_ReadsAsKafkaDoes(t *testing.T) {
	t.Parallel()
	const plain, scram = "org.apache.kafka.common.security.plain.PlainLoginModule", "org.apache.kafka.common.security.scram.ScramLoginModule"
	for _, test := range []struct {
		text string
		want jaasLogin
		err  error
	}{
		{plain + ` required username="u" password="p";`, jaasLogin{plainModule, "u", "p"}, nil},
		{plain + `   required username='u' password='p"q' ; `, jaasLogin{plainModule, "u", `p"q`}, nil},
		{scram + " REQUIRED\n  username=u-1.x@y\n  password=p+q ;", jaasLogin{scramModule, "u-1.x@y", "p+q"}, nil},
		{"kafkashaded." + plain + ` required username="u" password="p";`, jaasLogin{plainModule, "u", "p"}, nil},
		{plain + ` required username="u" password="a\"b\\c\nd\101\7;=/ ";`, jaasLogin{plainModule, "u", "a\"b\\c\ndA\a;=/ "}, nil},
		{plain + ` required username="$ConnectionString" password="Endpoint=sb://x/;SharedAccessKey=k=";`, jaasLogin{plainModule, "$ConnectionString", "Endpoint=sb://x/;SharedAccessKey=k="}, nil},
		{"/* a comment */ " + plain + " required // another\n username=u password=p;", jaasLogin{plainModule, "u", "p"}, nil},
		{plain + ` required username="u" password="p"`, jaasLogin{}, errJAASEnd},
		{plain + ` required username=u password=a/b;`, jaasLogin{}, errJAASEnd}, // a slash begins a comment
		{plain + ` required username="u" password="p;`, jaasLogin{}, errJAASQuote},
		{plain + " required username=\"u\" password=\"p\n\";", jaasLogin{}, errJAASQuote},
		{plain + ` required username="u";`, jaasLogin{}, errJAASPassword},
		{plain + ` required username="u" password="";`, jaasLogin{}, errJAASPassword},
		{plain + ` username="u" password="p";`, jaasLogin{}, errJAASForm},
		{plain + ` required username "u" password="p";`, jaasLogin{}, errJAASForm},
		{plain + ` required username=;`, jaasLogin{}, errJAASForm},
		{plain + ` required username=u username=v password=p;`, jaasLogin{}, errJAASTwice},
		{scram + ` required username=u password=p tokenauth=true;`, jaasLogin{}, errJAASOption},
		{plain + ` required username=u password=p; ` + plain + ` required username=u password=p;`, jaasLogin{}, errJAASModules},
		{`com.sun.security.auth.module.Krb5LoginModule required username=u password=p;`, jaasLogin{}, errJAASModule},
		{`;`, jaasLogin{}, errJAASForm},
		{``, jaasLogin{}, errJAASEnd},
	} {
		got, err := parseJAAS(test.text)
		if got != test.want || !errorsAre(err, test.err) {
			t.Errorf("%s\n%+v, %v, want %+v, %v", test.text, got, err, test.want, test.err)
		}
	}
}

func errorsAre(got, want error) bool { return got == want } //nolint:errorlint // the parser returns its errors as they are

func TestNormalPEM_PutsLineEndsBack(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"-----BEGIN CERTIFICATE----- QUJD REVG -----END CERTIFICATE-----":      "\n-----BEGIN CERTIFICATE-----\nQUJDREVG\n-----END CERTIFICATE-----\n",
		"-----BEGIN CERTIFICATE-----QUJD-----END CERTIFICATE-----":             "\n-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n",
		"-----BEGIN RSA PRIVATE KEY-----\nQUJD\n-----END RSA PRIVATE KEY-----": "\n-----BEGIN RSA PRIVATE KEY-----\nQUJD\n-----END RSA PRIVATE KEY-----\n",
		"no PEM": "no PEM",
	} {
		if got := normalPEM(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestEditDistance_CountsASwapOfNeighboursAsOne(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want int
	}{{"mode", "mode", 0}, {"mdoe", "mode", 1}, {"sikn", "sink", 1}, {"ca", "abc", 3}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}} {
		if got := editDistance(test.a, test.b); got != test.want {
			t.Errorf("%s, %s: %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

// FuzzProperties holds that no text makes the parsers panic, and that what is parsed can be written and read again.
func FuzzProperties(f *testing.F) {
	for _, seed := range []string{
		"bootstrap.servers=b:9092\nsecurity.protocol=SASL_SSL\n", "a\\\n  b : \\u00e9\\uD83D\\uDE00\\", "! c\r\n# d\r=\\=\\:\\ ",
		`sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="a\"b" password='c\101';`,
	} {
		f.Add(seed)
	}
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\f", `\f`, " ", `\ `, "=", `\=`, ":", `\:`, "#", `\#`, "!", `\!`)
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := parseProperties(text)
		if err != nil {
			return
		}
		var again strings.Builder
		var want []property
		for i, entry := range entries {
			again.WriteString(escape.Replace(entry.key) + "=" + escape.Replace(entry.value) + "\n")
			want = append(want, property{entry.key, entry.value, i + 1})
			if login, err := parseJAAS(entry.value); err == nil && (login.module == "" || login.username == "" || login.password == "") {
				t.Errorf("%q: %+v", entry.value, login)
			}
			if once := normalPEM(entry.value); strings.Contains(once, "-----BEGIN") && !strings.Contains(entry.value, "BEGIN") {
				t.Errorf("%q became %q", entry.value, once)
			}
		}
		got, err := parseProperties(again.String())
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(property{})); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", again.String(), err, diff)
		}
	})
}
