package counter

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"otm/internal/durable"
	"otm/pipeline"
)

// takeMany is set in the environment of this binary where it is to take ids
// from the counter of that directory, once its input ends.
const takeMany = "OTM_TEST_TAKE_MANY"

// idsEach is how many ids each of many writers takes in a round.
const idsEach = 10

func takeManyIn(dir string) error {
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	s := Open(dir, nil)
	for range idsEach {
		if _, err := takeOne(context.Background(), s); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkIDs is the counter alone, taken by 1, 8 or 64 processes at once that
// are running already, against the files that one writer makes durable with nobody
// in its way. One file is made durable in 32 ids.
func BenchmarkIDs(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("%d writers", writers), func(b *testing.B) {
			dir := b.TempDir()
			s := Open(dir, func(string) {})
			if _, err := takeOne(b.Context(), s); err != nil { // makes the counter
				b.Fatal(err)
			}
			var taking, writing time.Duration
			files := 0
			for b.Loop() {
				begun := time.Now()
				for range 50 {
					if err := durable.Replace(filepath.Join(dir, "file"), []byte("{\"next\":1}\n")); err != nil {
						b.Fatal(err)
					}
					files++
				}
				writing += time.Since(begun)
				taking += takeAtOnce(b, dir, writers)
			}
			last, err := takeOne(b.Context(), s)
			if want := pipeline.TaskID(2 + b.N*writers*idsEach); err != nil || last != want {
				b.Fatalf("the next id is %v, %v; want %v", last, err, want)
			}
			ids := float64(b.N*writers*idsEach) / taking.Seconds()
			allowed := float64(files) / writing.Seconds()
			b.ReportMetric(ids, "ids/s")
			b.ReportMetric(allowed, "files/s")
			b.ReportMetric(100*ids/allowed, "%ofallowed")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// takeAtOnce has so many processes take ids, and returns how long they took.
func takeAtOnce(b *testing.B, dir string, writers int) time.Duration {
	b.Helper()
	var all []*exec.Cmd
	var starts []io.Closer
	for range writers {
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), takeMany+"="+dir), os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			b.Fatalf("a writer said %q, %v", line, err)
		}
		all, starts = append(all, cmd), append(starts, in)
	}
	begun := time.Now()
	for _, in := range starts {
		in.Close()
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(begun)
}
