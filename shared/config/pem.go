package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"time"
)

// The two halves of a client's certificate.
const (
	certFile = "kafka.tls.certFile"
	keyFile  = "kafka.tls.keyFile"
)

const pemForm = "path of a PEM file, or a reference to its content"

// certificates reads caFile and certFile: the path of a PEM file, a reference to its content, or the content.
func certificates() parser[string] {
	return parser[string]{form: pemForm, show: asItIs[string], parse: func(v value) (string, bool) {
		text, ok := v.pem()
		if !ok {
			return "", false
		}
		chain := parseChain(text)
		if len(chain) == 0 {
			v.fail("holds no certificate in PEM form")
			return "", false
		}
		// A file may hold the private key too, and certificates are no secret of the Config.
		var only strings.Builder
		for _, certificate := range chain {
			only.Write(pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: certificate.Raw}))
		}
		return only.String(), v.checkExpiry(chain)
	}}
}

const certificateBlock = "CERTIFICATE"

// privateKey reads keyFile. Nothing of it is shown, since the key itself is easily put where its path belongs.
func privateKey() parser[Secret] {
	return parser[Secret]{form: "secret", limits: pemForm, parse: func(v value) (Secret, bool) {
		text, ok := v.pem()
		if !ok {
			return "", false
		}
		block, rest := pem.Decode([]byte(text))
		for block != nil && !strings.HasSuffix(block.Type, "PRIVATE KEY") { // parameters of a curve, certificates
			block, rest = pem.Decode(rest)
		}
		switch {
		case block == nil:
			v.fail("holds no private key in PEM form")
		case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "":
			v.fail("holds an encrypted private key: store it without a password, as a secret")
		default:
			return Secret(pem.EncodeToMemory(block)), true
		}
		return "", false
	}}
}

// pem returns the text in PEM form that v holds or names.
func (v value) pem() (string, bool) {
	text, ok := v.scalar("the "+pemForm, "!!str")
	if !ok {
		return "", false
	}
	if v.hidden || strings.Contains(text, "-----BEGIN") {
		return text, true
	}
	content, err := v.loader.readFile(text)
	if err != nil && v.path == keyFile {
		v.fail("the file that it names (not shown) cannot be read: write its path, or a reference to its content")
		return "", false
	}
	if err != nil {
		v.failWith(err)
		return "", false
	}
	return content, true
}

// parseChain returns the certificates of a text, in their order. What is no certificate is passed over, as TLS does.
func parseChain(text string) []*x509.Certificate {
	var chain []*x509.Certificate
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != certificateBlock {
			continue
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			chain = append(chain, certificate)
		}
	}
	return chain
}

// checkExpiry reports certificates of which none is in its time. Of authorities one that is left may be enough; of a
// client's chain the first one counts.
func (v value) checkExpiry(chain []*x509.Certificate) bool {
	now := time.Now()
	if v.path == certFile {
		chain = chain[:1]
	}
	last := chain[0]
	for _, certificate := range chain {
		if now.After(certificate.NotBefore) && now.Before(certificate.NotAfter) {
			return true
		}
		if certificate.NotAfter.After(last.NotAfter) {
			last = certificate
		}
	}
	if now.Before(last.NotBefore) {
		v.fail("the certificate is not valid before %s", last.NotBefore.UTC().Format(time.RFC3339))
		return false
	}
	v.fail("the certificate expired at %s: put a new one in its place", last.NotAfter.UTC().Format(time.RFC3339))
	return false
}

// checkClientCertificate wants both halves or none, and halves that fit.
func (l *loader) checkClientCertificate(kafka Kafka) {
	if !l.fine(certFile, keyFile) {
		return
	}
	switch cert, key := l.set(certFile), l.set(keyFile); {
	case cert && !key:
		l.fail(keyFile, "missing; %s needs its private key", certFile)
	case key && !cert:
		l.fail(certFile, "missing; %s needs its certificate", keyFile)
	case cert:
		// Its errors tell what does not fit, and the text is not wrapped: no part of a key is to be near a message.
		if _, err := tls.X509KeyPair([]byte(kafka.TLS.CertPEM), []byte(kafka.TLS.KeyPEM.Reveal())); err != nil {
			l.fail(keyFile, "does not fit the certificate of %s: its private key is another one, or of a kind that TLS does not know", certFile)
		}
	}
}
