package javascript

import "testing"

func TestClasses(t *testing.T) {
	last, sizes := 0, map[int]size{}
	for bytes := size(1); bytes <= maxInClass; bytes++ {
		class, rounded := classOf(bytes)
		if known, exists := sizes[class]; exists && known != rounded {
			t.Fatalf("class %d has blocks of %d and %d", class, known, rounded)
		}
		sizes[class] = rounded
		if class < last || class >= classes || rounded < bytes || rounded%header != 0 || bytes > 64 && rounded-bytes > bytes/4 {
			t.Fatalf("%d bytes: class %d of %d after %d, blocks of %d", bytes, class, classes, last, rounded)
		}
		last = class
	}
	if last != classes-1 {
		t.Errorf("the last class is %d, not %d", last, classes-1)
	}
}
