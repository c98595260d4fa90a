// Package api serves the HTTP API under /api/otm/, and /metrics, to programs on this machine. It
// offers what the commands do. Callers bear a token of otm token. Package app does the work;
// this package has the forms of requests and answers, from which the OpenAPI document comes.
//
// # What this does not guarantee
//
// That a repeated request is known without an Idempotency-Key, or 400 days later. That the
// board shows a change when it is answered.
package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"otm/internal/app"
	"otm/internal/loopback"
	"otm/internal/tokens"
	"otm/internal/why"
	"otm/pipeline"
)

// Prefix begins the paths of the API.
const Prefix = "/api/otm"

// maxBody bounds the body of a request, in bytes: a task with 50 steps of 500 characters fits.
const maxBody = 128 << 10

// server answers requests.
type server struct {
	back *app.Backend
	mux  *http.ServeMux
	huma huma.API
	open chan struct{} // one value for each open stream
	seen *requests

	beat     time.Duration // between two comments in a stream without events
	sendTime time.Duration // how long a stream's reader may accept no data
}

// New returns the API of a data directory.
func New(b *app.Backend) http.Handler { return newServer(b).guard() }

func newServer(b *app.Backend) *server {
	s := &server{back: b, mux: http.NewServeMux(), open: make(chan struct{}, maxStreams), seen: newRequests(), beat: 15 * time.Second, sendTime: 30 * time.Second}
	c := huma.DefaultConfig("OTM", "1")
	c.Info.Description = "Tasks for people and AI agents. Requests bear a token of otm token: Authorization: Bearer otm_…"
	c.OpenAPIPath, c.DocsPath, c.SchemasPath, c.CreateHooks = Prefix+"/openapi", "", "", nil
	c.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	c.AllowAdditionalPropertiesByDefault = true // answers may grow; requests say themselves that they take no more
	c.RejectUnknownQueryParameters = true
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
	c.Security = []map[string][]string{{"token": {}}}
	s.huma = humago.New(s.mux, c)
	s.huma.UseMiddleware(s.seen.count, s.authenticate)
	readers(s)
	changes(s)
	streams(s)
	s.mux.Handle("GET /metrics", metrics(s))
	return s
}

// schemaName names a type in the document.
func schemaName(t reflect.Type, hint string) string {
	if t == reflect.TypeFor[why.Reason]() {
		return "Why" // view has a Reason too
	}
	return huma.DefaultSchemaNamer(t, hint)
}

// guard refuses requests that do not call us by a loopback name, or that a page made a
// browser send, and those for which there is no operation.
func (s *server) guard() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		switch {
		case !loopback.Named(r):
			refuse(w, http.StatusForbidden, "this server answers to 127.0.0.1, localhost and [::1] only")
		case !loopback.SameOrigin(r):
			refuse(w, http.StatusForbidden, "no page of another origin may ask here")
		default:
			if _, pattern := s.mux.Handler(r); pattern == "" {
				w = unserved{w, r.URL.Path}
			}
			s.mux.ServeHTTP(w, r)
		}
	})
}

// tokenKey is the key of the caller's token in a context.
type tokenKey struct{}

// caller returns the token of a request.
func caller(ctx context.Context) *tokens.Token { return ctx.Value(tokenKey{}).(*tokens.Token) }

// authenticate refuses requests without a token. It reads headers only.
func (s *server) authenticate(c huma.Context, next func(huma.Context)) {
	t, err := s.token(c.Header("Authorization"))
	if err != nil {
		_, w := humago.Unwrap(c)
		s.refuse(counted{w, c}, err)
		return
	}
	next(huma.WithValue(c, tokenKey{}, t))
}

var errNoToken = errors.New("want a token: Authorization: Bearer otm_…; otm token create makes one")
var errUnknownToken = errors.New("the token is not known here, or was revoked; otm token list shows those that count")

// token returns the token that a header bears.
func (s *server) token(header string) (*tokens.Token, error) {
	secret, ok := strings.CutPrefix(header, "Bearer ")
	if !ok {
		return nil, errNoToken
	}
	t, err := s.back.Token(strings.TrimSpace(secret))
	if t == nil && err == nil {
		err = errUnknownToken
	}
	return t, err
}

// output is an answer.
type output[T any] struct{ Body T }

// op is an operation of the API.
type op struct{ method, path, id, summary, long string }

// add registers an operation.
func add[I, O any](s *server, o op, do func(context.Context, *I) (O, error)) {
	huma.Register(s.huma, huma.Operation{
		OperationID: o.id, Method: o.method, Path: Prefix + o.path, Summary: o.summary, Description: o.long, MaxBodyBytes: maxBody,
		Errors: []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity},
	}, func(ctx context.Context, in *I) (*output[O], error) {
		out, err := do(ctx, in)
		if err != nil {
			return nil, s.problem(err)
		}
		return &output[O]{out}, nil
	})
}

// Keyed has the headers of requests for changes.
type Keyed struct {
	Key   string `header:"Idempotency-Key" maxLength:"200" doc:"The same request with the same key is carried out once, and answered as then"`
	Trace string `header:"traceparent" doc:"The trace of the caller (W3C Trace Context). A task that is made keeps it. One that is not valid is ignored"`
}

// request returns the request of a caller. what, all that is asked for, goes into its sum.
func (k Keyed) request(ctx context.Context, what ...any) app.Request {
	data, _ := json.Marshal(what) // the forms of requests always marshal
	sum := sha256.Sum256(data)
	return app.Request{Token: caller(ctx), Key: k.Key, Sum: hex.EncodeToString(sum[:8]), Trace: pipeline.ParseTrace(k.Trace)}
}
