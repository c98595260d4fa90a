// The command pack makes an archive of a directory that is the same bytes for
// the same files: sorted, with one time, no owners and two modes.
//
//	pack ARCHIVE.tar.gz DIR NAME UNIX-TIME
package main

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("usage: pack ARCHIVE.tar.gz DIR NAME UNIX-TIME")
	}
	at, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		return err
	}
	out, err := os.Create(args[0])
	if err != nil {
		return err
	}
	defer out.Close()
	zip, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(zip)
	if err := add(archive, args[1], args[2], time.Unix(at, 0).UTC()); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return out.Close()
}

// add adds a directory's files in the order of their names.
func add(archive *tar.Writer, dir, name string, at time.Time) error {
	return fs.WalkDir(os.DirFS(dir), ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(name, file), Size: info.Size(), Mode: mode, ModTime: at, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(h); err != nil {
			return err
		}
		in, err := os.Open(filepath.Join(dir, filepath.FromSlash(file)))
		if err != nil {
			return err
		}
		defer in.Close()
		_, err = io.Copy(archive, in)
		return err
	})
}
