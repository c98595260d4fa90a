package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/internal/tokens"
	"otm/pipeline"
)

// tokenCommand is otm token.
func tokenCommand(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke the tokens with which people and programs act",
		Long: `The commands that review and steer act for the holder of a token. On a terminal
they use the owner's, which otm init made. Scripts name one: --token-file, or the
variable ` + tokenFileEnv + `.

Roles: owner (everything, tokens included), operator (reviews and steers), viewer
(reads), bot (a program that reports and asks). The token of a bot that has the name
of an agent acts for this agent alone. Only hashes of tokens are kept.`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(tokenCreateCommand(s), tokenListCommand(s), tokenRevokeCommand(s))
	return c
}

// tokenName checks that the only argument is the name of a token.
func tokenName(c *cobra.Command) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) != 1:
			return cli.Errorf(cli.Usage, "%s takes the name of one token", c.CommandPath()).Hint("%s", strings.TrimSpace(c.Example))
		case !pipeline.ValidAgentName(args[0]):
			return cli.Errorf(cli.Usage, "%q is no name for a token: letters, digits, spaces, '.', '-' and '_'", args[0]).Hint("%s", strings.TrimSpace(c.Example))
		}
		return nil
	}
}

// owns returns an error unless the command acts for an owner. An agent never is one.
func (as *acting) owns() error {
	if agent := as.h.Getenv("OTM_AGENT"); agent != "" {
		return cli.Errorf(cli.Usage, "this shell is that of agent %s: %s is for owners", agent, as.c.CommandPath())
	}
	t, err := as.token()
	if err == nil && t.Role != tokens.Owner {
		err = cli.Errorf(cli.Credentials, "the token %q has the role %s: %s takes an owner", t.Name, t.Role, as.c.CommandPath())
	}
	return err
}

func tokenCreateCommand(s cli.Streams) *cobra.Command {
	var role string
	c := &cobra.Command{
		Use:     "create NAME --role ROLE",
		Short:   "Make a token and print it, this once",
		Example: "  (umask 077; otm token create ci --role operator > ~/ci.token)",
	}
	c.Args = tokenName(c)
	forPeople(c, s, func(ctx context.Context, h *Home, as *acting, args []string) error {
		r := tokens.Role(strings.ToLower(role))
		if !slices.Contains(tokens.Roles, r) {
			near := cmp.Or(pipeline.Nearest(string(r), pipeline.Texts(tokens.Roles)), string(tokens.Operator))
			return cli.Errorf(cli.Usage, "--role %q: it is one of %s", role, strings.Join(pipeline.Texts(tokens.Roles), ", ")).
				Hint("otm token create %s --role %s", safe.Quote(args[0]), near)
		}
		if err := as.owns(); err != nil {
			return err
		}
		agent := ""
		if a := aiNamed(h, args[0]); r == tokens.Bot && a != nil {
			agent = a.Name
		}
		token, err := tokens.Open(h.Dir).Create(ctx, args[0], r, agent, h.Now())
		switch {
		case errors.Is(err, tokens.ErrTaken):
			return cli.Errorf(cli.Usage, "%w: %s", err, args[0]).Hint("otm token revoke %s", safe.Quote(args[0]))
		case err != nil:
			return err
		}
		return h.answer(map[string]any{"name": args[0], "role": r, "token": token}, func() error {
			_, err := fmt.Fprintln(h.Out, token)
			return err
		})
	})
	c.Flags().StringVar(&role, "role", "", "owner, operator, viewer or bot (required)")
	jsonFlag(c, "print it as JSON")
	return c
}

func tokenListCommand(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "list",
		Short: "List tokens by name and role",
		Args:  cli.NoWords(nil),
		RunE: withHome(s, func(_ context.Context, h *Home, _ []string) error {
			all, err := tokens.Open(h.Dir).List()
			if err != nil {
				return err
			}
			type entry struct {
				Name      string      `json:"name"`
				Role      tokens.Role `json:"role"`
				Agent     string      `json:"agent,omitempty"`
				CreatedAt time.Time   `json:"createdAt"`
			}
			entries := pipeline.Map(all, func(t tokens.Token) entry { return entry{t.Name, t.Role, t.Agent, t.CreatedAt} })
			return h.answer(entries, func() error {
				w := tabwriter.NewWriter(h.Out, 0, 0, 2, ' ', 0)
				for _, t := range entries {
					fmt.Fprintf(w, "%s\t%s\t%s\n", safe.Escape(t.Name), t.Role, explain.Time(t.CreatedAt))
				}
				return w.Flush()
			})
		}),
	}
	jsonFlag(c, "print it as JSON")
	return c
}

func tokenRevokeCommand(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:     "revoke NAME",
		Short:   "Remove a token: it counts no more, at once",
		Example: "  otm token revoke ci",
	}
	c.Args = tokenName(c)
	forPeople(c, s, func(ctx context.Context, h *Home, as *acting, args []string) error {
		if err := as.owns(); err != nil {
			return err
		}
		err := tokens.Open(h.Dir).Revoke(ctx, args[0])
		switch {
		case errors.Is(err, tokens.ErrUnknown):
			return cli.Errorf(cli.Usage, "%w: %s", err, args[0]).Hint("otm token list")
		case errors.Is(err, tokens.ErrLastOwner):
			return cli.Errorf(cli.Usage, "%s: %w", args[0], err).Hint("otm token create NAME --role owner")
		case err != nil:
			return err
		}
		_, err = fmt.Fprintf(h.Out, "%s: revoked\n", safe.Escape(args[0]))
		return err
	})
	return c
}
