package mongosink_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/local/realpart/realtest"
	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/mongosink"
	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
)

func good(uri string) mongosink.Options {
	return mongosink.Options{
		URI: uri, Database: "shop", Collection: "orders", DeadLetters: "orders_dead", GuardField: "_tidemark", Pipeline: "shop",
	}
}

func TestNew_ChecksTheURIOffline_AndNeverRepeatsIt(t *testing.T) {
	t.Parallel()
	const secret = "s3cretPass"
	cases := []struct{ name, uri, class string }{
		{"plain", "mongodb://localhost:27017/", ""},
		{"majority", "mongodb://u:" + secret + "@a:1,b:2/db?replicaSet=rs&w=majority&journal=true&wtimeoutMS=5", ""},
		{"srv is not resolved", "mongodb+srv://u:" + secret + "@no.such.host.example/db?srvServiceName=x&srvMaxHosts=2&retryWrites=true", ""},
		{"srv without a query", "mongodb+srv://u:" + secret + "@no.such.host.example/", ""},
		{"srv without a path", "mongodb+srv://u:" + secret + "@no.such.host.example", ""},
		{"w=1", "mongodb://u:" + secret + "@a/?w=1", "weak-write-concern"},
		{"w=0", "mongodb://a/?w=0", "weak-write-concern"},
		{"w=2", "mongodb://a/?w=2", "weak-write-concern"},
		{"a tag", "mongodb://a/?w=dc1", "weak-write-concern"},
		{"srv w=1", "mongodb+srv://u:" + secret + "@no.such.host.example/?w=1", "weak-write-concern"},
		{"no journal", "mongodb://a/?journal=false", "weak-write-concern"},
		{"another scheme", "http://u:" + secret + "@a/", "bad-mongodb-uri"},
		{"no host", "mongodb://u:" + secret, "bad-mongodb-uri"},
		{"a colon in the password", "mongodb://u:" + secret + ":x@a/", "bad-mongodb-uri"},
		{"an at sign in the password", "mongodb://u:" + secret + "@x@a/", "bad-mongodb-uri"},
		{"a slash in the password", "mongodb://u:" + secret + "/x@a/", "bad-mongodb-uri"},
		{"a bad escape", "mongodb://u:" + secret + "%zz@a/", "bad-mongodb-uri"},
		{"a bad port", "mongodb://u:" + secret + "@a:" + secret + "/", "bad-mongodb-uri"},
		{"a bad option", "mongodb://a/?connectTimeoutMS=" + secret, "bad-mongodb-uri"},
		{"nothing", "", "bad-sink"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := mongosink.New(good(c.uri))
			if c.class == "" {
				if err != nil {
					t.Fatalf("error = %v, expected none", err)
				}
				return
			}
			expectFault(t, err, fault.Fatal, c.class)
			if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q holds the password or is no single line", err)
			}
		})
	}
}

func TestNew_RefusesOptionsThatCannotWork(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*mongosink.Options){
		"no database":     func(o *mongosink.Options) { o.Database = "" },
		"no collection":   func(o *mongosink.Options) { o.Collection = "" },
		"no dead letters": func(o *mongosink.Options) { o.DeadLetters = "" },
		"no guard":        func(o *mongosink.Options) { o.GuardField = "" },
		"a dotted guard":  func(o *mongosink.Options) { o.GuardField = "a.b" },
		"_id as guard":    func(o *mongosink.Options) { o.GuardField = "_id" },
		"no pipeline":     func(o *mongosink.Options) { o.Pipeline = "" },
		"one collection":  func(o *mongosink.Options) { o.DeadLetters = o.Collection },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := good("mongodb://a/")
			spoil(&o)
			_, err := mongosink.New(o)
			expectFault(t, err, fault.Fatal, "bad-sink")
		})
	}
}

func TestOptions_NeverPrintTheURI(t *testing.T) {
	t.Parallel()
	o := good("mongodb://u:s3cretPass@a/")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if text := fmt.Sprintf(verb, o); strings.Contains(text, "s3cret") || strings.Contains(text, "mongodb") {
			t.Errorf("%s prints %s", verb, text)
		}
	}
	if text := o.LogValue().String(); text != "shop.orders" {
		t.Errorf("logs %s", text)
	}
}

func TestWrite_AServerThatIsNotThere_IsTransientWithin12Seconds(t *testing.T) {
	t.Parallel()
	// A port that takes connections and never answers is worse than a closed one.
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for name, uri := range map[string]string{
		"closed":              "mongodb://u:s3cretPass@127.0.0.1:1/?directConnection=true",
		"closed, replica set": "mongodb://u:s3cretPass@127.0.0.1:1,127.0.0.1:2/?replicaSet=rs0",
		"silent":              "mongodb://u:s3cretPass@" + silent.Addr().String() + "/",
		"sooner by the URI":   "mongodb://u:s3cretPass@127.0.0.1:1/?serverSelectionTimeoutMS=300",
		"later by the URI":    "mongodb://u:s3cretPass@127.0.0.1:1/?serverSelectionTimeoutMS=60000",
		"no such name":        "mongodb+srv://u:s3cretPass@no-such-host.invalid/",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sink, err := mongosink.New(good(uri))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = sink.Close(t.Context()) })
			start := time.Now()
			_, err = sink.Write(t.Context(), []record.Write{pulltest.SinkWrite(t, at(1))})
			took := time.Since(start)
			expectFault(t, err, fault.Transient, "")
			limit := 12 * time.Second
			if name == "sooner by the URI" {
				limit = 3 * time.Second
			}
			if took > limit {
				t.Errorf("it took %v, expected at most %v", took, limit)
			}
			text := err.Error()
			t.Log(text)
			if strings.Contains(text, "s3cret") || strings.Contains(text, "\n") {
				t.Errorf("%q holds the password or is no single line", text)
			}
			if host := "127.0.0.1"; !strings.Contains(text, host) && name != "no such name" {
				t.Errorf("%q does not name the host", text)
			}
		})
	}
}

func TestWrite_AWrongPassword_IsFatalAtOnce(t *testing.T) {
	t.Parallel()
	uri := realtest.Mongo(t)
	// mongod checks credentials that it is given also where it demands none.
	sink, err := mongosink.New(good(strings.Replace(uri, "mongodb://", "mongodb://nobody:s3cretPass@", 1)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close(t.Context()) })
	start := time.Now()
	_, err = sink.Write(t.Context(), []record.Write{pulltest.SinkWrite(t, at(1))})
	expectFault(t, err, fault.Fatal, "mongodb-auth")
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	t.Log(err)
	if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "nobody") || !strings.Contains(err.Error(), "readWrite") {
		t.Errorf("%q holds a credential, or does not name the role", err)
	}
}
