// Package dashboard serves pages that show what controllers do and why, and that edit their
// objects.
//
// It contains the routes, the pages with their templates, styles and scripts, and live updates.
// Reading processes belongs in model, requests to the API server in userclient, sign-in in
// access, and schemas in form. The manager and the dev loop serve it.
//
// Each page is one template and one Go file with a function for each of its routes; routes.go
// lists them. The API server authorizes everything: all requests are made as the user.
package dashboard
