// Package setpoint is the front door for Go programs: the SDK with which a
// controller is written as a function from what is observed to what is wanted.
//
// What lives here: the types and functions a Go program names to describe a
// controller and to run it. What must not: the engine, the API machinery, or
// anything that a webhook written in another language could not do as well;
// those are rooms under internal/.
//
// Who calls: programs outside this repository, the bundled controllers under
// controllers/, and the examples. Nothing below this floor imports it.
package setpoint
