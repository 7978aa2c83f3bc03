// Functions of the package. The types of requests and responses are generated: wire.d.ts.
import type { IncomingMessage, ServerResponse } from "node:http";

import type {
  CustomizeRequest, CustomizeResponse, DecoratorSyncRequest, DecoratorSyncResponse, HandlerRequest, HandlerResponse,
  ReviewRequest, ReviewResponse, SyncRequest, SyncResponse,
} from "./wire.d.ts";

export type * from "./wire.d.ts";

/** Context is the second argument of every hook. */
export interface Context {
  /** Aborted when Setpoint no longer waits for the response, and after it. */
  signal: AbortSignal;
  /** The trace of the call, for propagation.extract of OpenTelemetry; {} without traces. */
  traceContext: { traceparent?: string; tracestate?: string };
}

type Hook<Request, Response> = (request: Request, context: Context) => Response | Promise<Response>;

// Controllers that declare no children and attachments may leave them out.
type Composed = Optional<SyncResponse, "children">;
type Decorated = Optional<DecoratorSyncResponse, "attachments">;
type Optional<Type, Field extends keyof Type> = Omit<Type, Field> & Partial<Pick<Type, Field>>;

/** Routes are functions by their path, made by composite, decorator, handlers and admission. */
export type Routes = { [path: string]: Route };
type Route = (request: any, context: Context) => Promise<Result>;
interface Result {
  status: number;
  body: string;
}

export interface RouteOptions {
  /** Precedes the names of the hooks: with /cats, sync is at /cats/sync. */
  prefix?: string;
}

/** Routes to the hooks of a CompositeController. A function may have the request that setpoint types generates. */
export function composite<Sync = SyncRequest, Finalize = SyncRequest, Customize = CustomizeRequest>(
  hooks: {
    sync?: Hook<Sync, Composed>;
    finalize?: Hook<Finalize, Composed>;
    customize?: Hook<Customize, CustomizeResponse>;
  },
  options?: RouteOptions,
): Routes;

/** Routes to the hooks of a DecoratorController. */
export function decorator<Sync = DecoratorSyncRequest, Finalize = DecoratorSyncRequest, Customize = CustomizeRequest>(
  hooks: {
    sync?: Hook<Sync, Decorated>;
    finalize?: Hook<Finalize, Decorated>;
    customize?: Hook<Customize, CustomizeResponse>;
  },
  options?: RouteOptions,
): Routes;

/** Routes to the handlers of a HandlerController, by their names. One that returns nothing wants no writes. */
export function handlers<Requests extends { [name: string]: any } = { [name: string]: HandlerRequest }>(
  hooks: { [Name in keyof Requests]: Hook<Requests[Name], HandlerResponse | void> },
  options?: RouteOptions,
): Routes;

/** Routes to the webhooks of an AdmissionController, by their names. */
export function admission<Requests extends { [name: string]: any } = { [name: string]: ReviewRequest }>(
  hooks: { [Name in keyof Requests]: Hook<Requests[Name], ReviewResponse> },
  options?: RouteOptions,
): Routes;

/**
 * Returns an object of a group by its name, or undefined: child(children, "ConfigMap.v1", "web"). Keys of namespaced
 * objects are namespace/name in requests of version v2. Throws if there is no such group, or if objects in several
 * namespaces have the name; then name namespace/name.
 */
export function child<Groups, Kind extends keyof Groups>(
  groups: Groups, kind: Kind, name: string,
): Groups[Kind][keyof Groups[Kind]] | undefined;

/** Thrown by an admission hook, refuses the change. */
export class Deny extends Error {
  constructor(message: string, options?: { code?: number; reason?: string });
}

/** Thrown by a handler: Setpoint calls it again when the object changes, not before. */
export class Permanent extends Error {
  constructor(message: string, options?: { cause?: unknown });
}

/** Thrown by any hook but admission: Setpoint calls it again after that many seconds. */
export class Retry extends Error {
  constructor(message: string, options: { after: number; cause?: unknown });
  readonly after: number;
}

export interface ListenerOptions {
  /** Larger requests are refused. Default 256 MiB. */
  maxBodyBytes?: number;
}

export interface ServeOptions extends ListenerOptions {
  /** Default: the environment variable PORT, else 8080; 0 is any free port. */
  port?: number;
  /** Default: the environment variable HOST, else all addresses. */
  host?: string;
  /** Whether SIGTERM and SIGINT stop the server and end the process. Default true. */
  signals?: boolean;
}

export interface Server {
  port: number;
  /** Ends after the running calls, at the latest after 20 s. */
  close(): Promise<void>;
}

/** Serves routes over HTTP. Resolves when the server listens. */
export function serve(routes: Routes | Routes[], options?: ServeOptions): Promise<Server>;

/** Returns the listener of a server of one's own: https.createServer({key, cert}, listener(routes)). */
export function listener(
  routes: Routes | Routes[],
  options?: ListenerOptions,
): (request: IncomingMessage, response: ServerResponse) => void;
