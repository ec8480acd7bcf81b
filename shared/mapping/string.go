package mapping

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// str reads a string in quotes and appends its text to dst. Most are plain ASCII; plain says that this one was, and so
// that it holds no U+0000. Most are short as well: they are copied in the words in which they are looked at, which may
// write up to a word into dst's free capacity behind the text.
func (p *parser) str() (plain bool, err error) {
	const short = 24
	p.pos++
	n := len(p.dst)
	if len(p.src)-p.pos >= short && cap(p.dst)-n >= short {
		src, dst := (*[short]byte)(p.src[p.pos:]), (*[short]byte)(p.dst[n:n+short])
		for i := 0; i < short; i += 8 {
			w := binary.LittleEndian.Uint64(src[i:])
			binary.LittleEndian.PutUint64(dst[i:], w)
			if found := notPlain(w); found != 0 {
				end := i + firstByte(found)
				p.dst = p.dst[:n+end]
				p.pos += end
				if src[end] == '"' {
					p.pos++
					return true, nil
				}
				return false, p.anyStr()
			}
		}
	}
	end := skipPlain(p.src, p.pos)
	p.dst = append(p.dst, p.src[p.pos:end]...)
	p.pos = end
	if p.peek() == '"' {
		p.pos++
		return true, nil
	}
	return false, p.anyStr()
}

// firstByte returns the number of the first byte that notPlain marks.
func firstByte(found uint64) int { return int(uint(bits.TrailingZeros64(found)) >> 3) }

// anyStr reads the rest of any string.
func (p *parser) anyStr() error {
	for {
		end, valid := p.run()
		p.dst = append(p.dst, p.src[p.pos:end]...)
		p.pos = end
		if !valid {
			return p.fail("bad-utf8", end, "not UTF-8")
		}
		switch p.peek() {
		case '"':
			p.pos++
			return nil
		case '\\':
			if err := p.escape(); err != nil {
				return err
			}
		default:
			return p.malformed("the end of the string, or an escape for a control character,")
		}
	}
}

// run returns where the text ends that stands for itself: before a quote, an escape, a control character, the end, or
// bytes that are not valid.
func (p *parser) run() (end int, valid bool) {
	i := p.pos
	for {
		i = skipPlain(p.src, i)
		if i >= len(p.src) || p.src[i] < utf8.RuneSelf {
			return i, true
		}
		r, size := utf8.DecodeRune(p.src[i:])
		if r == utf8.RuneError && size == 1 {
			return i, false
		}
		i += size
	}
}

// invalidUTF8 returns the place of the first byte that is not UTF-8, none where there is none.
func invalidUTF8(text []byte) int {
	if utf8.Valid(text) {
		return none
	}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return none
}

// notPlain marks with its top bit each byte of eight that is a quote, a backslash, a control character or not ASCII.
// Subtraction can carry into higher bytes, never lower ones, so the lowest mark is exact (Warren, Hacker's Delight,
// section 6-1).
func notPlain(w uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, backslash := w^ones*'"', w^ones*'\\'
	return ((w-ones*0x20)&^w | (quote-ones)&^quote | (backslash-ones)&^backslash | w) & tops
}

// skipPlain returns the place of the next byte that notPlain marks.
func skipPlain(src []byte, i int) int {
	for ; i+8 <= len(src); i += 8 {
		if found := notPlain(binary.LittleEndian.Uint64(src[i:])); found != 0 {
			return i + firstByte(found)
		}
	}
	for ; i < len(src); i++ {
		if c := src[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return i
		}
	}
	return i
}

// escape reads an escape sequence and appends what it stands for.
func (p *parser) escape() error {
	at := p.pos
	p.pos++
	c := p.peek()
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return p.unicode(at)
	default:
		return p.malformed("one of the escapes of JSON")
	}
	p.pos++
	p.dst = append(p.dst, c)
	return nil
}

// unicode reads a \u escape, or two of them where the first is half of a surrogate pair.
func (p *parser) unicode(at int) error {
	r, err := p.codeUnit()
	if err != nil {
		return err
	}
	if utf16.IsSurrogate(r) {
		second := rune(utf8.RuneError)
		if rest := p.src[p.pos:]; len(rest) >= 2 && rest[0] == '\\' && rest[1] == 'u' {
			p.pos++
			if second, err = p.codeUnit(); err != nil {
				return err
			}
		}
		if r = utf16.DecodeRune(r, second); r == utf8.RuneError {
			return p.fail("bad-utf8", at, "half of a surrogate pair, which has no UTF-8 form")
		}
	}
	p.dst = utf8.AppendRune(p.dst, r)
	return nil
}

// codeUnit reads the u and four hex digits.
func (p *parser) codeUnit() (rune, error) {
	p.pos++
	var r rune
	for range 4 {
		digit, ok := hexDigit(p.peek())
		if !ok {
			return 0, p.malformed("a hex digit")
		}
		r = r<<4 | rune(digit)
		p.pos++
	}
	return r, nil
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
