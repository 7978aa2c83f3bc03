// Tests without a cluster.
import type {
  CustomizeRequest, CustomizeResponse, DecoratorSyncRequest, DecoratorSyncResponse, HandlerRequest, HandlerResponse,
  KubernetesObject, ReviewRequest, ReviewResponse, SyncRequest, SyncResponse,
} from "./wire.d.ts";

/** An object of a test: it need not be complete, as casts of literals would be in each test. */
type TestObject = { metadata: { name?: string; namespace?: string; [field: string]: any }; [field: string]: any };

/** Objects by their kind: {"Pod.v1": [pod], "Service.v1": []}. apiVersion and kind may be left out. */
type Lists = { [kind: string]: TestObject[] };

interface SyncOptions {
  related?: Lists;
  finalizing?: boolean;
  /** The form of names in the request; default v2, as in setpoint.dev. */
  version?: "v1" | "v2";
  controller?: KubernetesObject;
}

/** Returns a request to sync or finalize of a CompositeController. children has every declared kind. */
export function compositeRequest<Request = SyncRequest>(fields: { parent: TestObject; children?: Lists } & SyncOptions): Request;

/** Returns a request to sync or finalize of a DecoratorController. attachments has every declared kind. */
export function decoratorRequest<Request = DecoratorSyncRequest>(
  fields: { object: TestObject; attachments?: Lists } & SyncOptions,
): Request;

/** Returns a request to customize. */
export function customizeRequest<Request = CustomizeRequest>(fields: { parent: TestObject; controller?: KubernetesObject }): Request;

/** Returns a request to a handler: by default, the first call for a new object. */
export function handlerRequest<Request = HandlerRequest>(
  fields: { object: TestObject; owned?: Lists; previousState?: TestObject | null } & Partial<Omit<HandlerRequest, "object" | "owned" | "previousState">>,
): Request;

/** Returns a request to an admission webhook. object alone is a creation, oldObject alone a deletion, both an update. */
export function reviewRequest<Request = ReviewRequest>(
  fields: { object?: TestObject | null; oldObject?: TestObject | null } & Partial<Omit<ReviewRequest, "object" | "oldObject">>,
): Request;

/** Returns the response as Setpoint receives it. An AssertionError lists what Setpoint refuses. */
export function checkResponse<Response extends AnyResponse | void>(request: object, response: Response): Response;

type AnyResponse = SyncResponse | DecoratorSyncResponse | CustomizeResponse | HandlerResponse | ReviewResponse;
