// Package scaffold writes new operators: files from templates, which belong to the author from
// then on. It never replaces a file that it has not generated.
//
// `setpoint init` calls it; it reads no cluster and has no flags.
package scaffold
