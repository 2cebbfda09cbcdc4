/** Places the nodes of a graph in layers, so that edges lead from one layer to later ones, with few crossings.
 *
 * Ours instead of a library: the layers of a level follow from the order in which its nodes ran, and a library that
 * also handles cycles, clusters and labels is a quarter of the page. */

/** A node or the picture: its size. */
export interface Size {
  width: number;
  height: number;
}

export interface Point {
  x: number;
  y: number;
}

/** Where everything is: nodes by their centres, edges by the points they pass, from source to target. */
export interface Layout extends Size {
  nodes: Point[];
  edges: Point[][];
}

/** The distance between layers, with room for a label, and between neighbours in a layer. */
export const GAP = { along: 40, across: 32 };
const LANE = 14; // the width that an edge needs where it passes a layer
const SWEEPS = 12;
const STRAIGHT = 4; // how much more an edge that passes a layer resists bending than one that ends there

/** A node, or the place where an edge passes a layer. */
interface Place {
  layer: number;
  size: number;
  x: number;
  up: Place[];
  down: Place[];
  /** The number of the node; -1 for an edge that passes. */
  node: number;
}

/** Lays nodes out from top to bottom, or from left to right if `sideways`; edges lead from a node to a later one. */
export function layout(sizes: Size[], edges: [number, number][], sideways = false): Layout {
  const across = sizes.map((size) => (sideways ? size.height : size.width));
  const along = sizes.map((size) => (sideways ? size.width : size.height));
  const layerOf = layersOf(sizes.length, edges);
  const { places, routes } = placesOf(across, layerOf, edges);
  const layers = Array.from({ length: 1 + Math.max(-1, ...layerOf) }, (_, layer) =>
    places.filter((place) => place.layer === layer),
  );
  order(layers);
  spread(layers);

  const thick = layers.map((layer) => Math.max(0, ...layer.map(({ node }) => along[node] ?? 0)));
  const start: number[] = [];
  let end = 0;
  for (const each of thick) {
    start.push(end);
    end += each + GAP.along;
  }
  const left = Math.min(0, ...places.map((place) => place.x - place.size / 2));
  const right = Math.max(0, ...places.map((place) => place.x + place.size / 2));
  const turn = (x: number, y: number): Point => (sideways ? { x: y, y: x - left } : { x: x - left, y });
  const middle = (layer: number) => start[layer]! + thick[layer]! / 2;
  const ports = portsOf(routes, across);
  const total = { width: right - left, height: Math.max(0, end - GAP.along) };
  return {
    width: sideways ? total.height : total.width,
    height: sideways ? total.width : total.height,
    nodes: sizes.map((_, node) => turn(places[node]!.x, middle(places[node]!.layer))),
    edges: routes.map((route, edge) =>
      route.flatMap(({ x, layer, node }, at) => {
        if (node < 0) return [turn(x, start[layer]!), turn(x, start[layer]! + thick[layer]!)];
        const half = along[node]! / 2;
        return at ? [turn(x + ports[edge]!, middle(layer) - half)] : [turn(x, middle(layer) + half)];
      }),
    ),
  };
}

/** The layer of each node: behind everything that it reads, and close to what reads it. */
export function layersOf(count: number, edges: [number, number][]): number[] {
  const sources: number[][] = Array.from({ length: count }, () => []);
  const targets: number[][] = Array.from({ length: count }, () => []);
  for (const [source, target] of edges) {
    sources[target]!.push(source);
    targets[source]!.push(target);
  }
  const layers: number[] = [];
  for (let node = 0; node < count; node++)
    layers[node] = Math.max(-1, ...sources[node]!.map((each) => layers[each]!)) + 1;
  for (let node = count - 1; node >= 0; node--) {
    if (targets[node]!.length > sources[node]!.length)
      layers[node] = Math.min(...targets[node]!.map((each) => layers[each]!)) - 1;
  }
  return layers;
}

/** The places of nodes, then of passing edges, and the places along each edge; edges of one node share theirs. */
function placesOf(across: number[], layerOf: number[], edges: [number, number][]) {
  const places: Place[] = across.map((size, node) => ({ layer: layerOf[node]!, size, x: 0, up: [], down: [], node }));
  const passing = new Map<number, Place[]>();
  const routes = edges.map(([source, target]) => {
    const lanes = passing.get(source) ?? [];
    passing.set(source, lanes);
    let last = places[source]!;
    const route = [last];
    for (let layer = layerOf[source]! + 1; layer < layerOf[target]!; layer++) {
      let lane = lanes[layer];
      if (!lane) {
        lane = lanes[layer] = { layer, size: LANE, x: 0, up: [last], down: [], node: -1 };
        last.down.push(lane);
        places.push(lane);
      }
      route.push((last = lane));
    }
    last.down.push(places[target]!);
    places[target]!.up.push(last);
    route.push(places[target]!);
    return route;
  });
  return { places, routes };
}

/** Orders each layer by the mean place of its neighbours, in turns down and up; the fewest crossings win. */
function order(layers: Place[][]): void {
  const number = () => layers.forEach((layer) => layer.forEach((place, at) => (place.x = at)));
  number();
  let best = layers.map((layer) => [...layer]);
  let least = crossings(layers);
  for (let sweep = 0; sweep < SWEEPS && least > 0; sweep++) {
    const side = sweep % 2 ? "down" : "up";
    for (const layer of sweep % 2 ? [...layers].reverse() : layers) {
      const wanted = new Map(
        layer.map((place) => [
          place,
          mean(
            place[side].map(({ x }) => x),
            place.x,
          ),
        ]),
      );
      layer.sort((one, two) => wanted.get(one)! - wanted.get(two)!);
      layer.forEach((place, at) => (place.x = at));
    }
    const count = crossings(layers);
    if (count < least) {
      least = count;
      best = layers.map((layer) => [...layer]);
    }
  }
  best.forEach((layer, at) => (layers[at] = layer));
  number();
}

/** How many pairs of edges cross, given the place of each node in its layer as `x`. */
function crossings(layers: Place[][]): number {
  let count = 0;
  for (const layer of layers) {
    const ends = layer.map((place) => place.down.map(({ x }) => x));
    for (let right = 1; right < ends.length; right++)
      for (let left = 0; left < right; left++)
        for (const one of ends[left]!) for (const two of ends[right]!) if (one > two) count++;
  }
  return count;
}

/** Moves each place to the mean of its neighbours, as far as those beside it in the layer let it. */
function spread(layers: Place[][]): void {
  for (const layer of layers)
    settle(
      layer,
      layer.map(() => 0),
      layer.map(() => 1),
    );
  for (let sweep = 0; sweep < 2 * SWEEPS; sweep++) {
    for (const layer of sweep % 2 ? [...layers].reverse() : layers) {
      const pulls = layer.map((place) => {
        // Between both neighbours first; at last below one, which makes chains straight.
        const near = sweep < 2 * SWEEPS - 1 ? [...place.up, ...place.down] : place.down;
        return near.map((other) => ({ x: other.x, weight: place.node < 0 && other.node < 0 ? STRAIGHT : 1 }));
      });
      const weights = pulls.map((each) => each.reduce((sum, { weight }) => sum + weight, 0));
      const wanted = pulls.map((each, at) =>
        weights[at] ? each.reduce((sum, { x, weight }) => sum + x * weight, 0) / weights[at]! : layer[at]!.x,
      );
      settle(
        layer,
        wanted,
        weights.map((weight) => weight || 0.1),
      );
    }
  }
}

/** Sets `x` of a layer as close to what is wanted as the distances between neighbours allow (least squares). */
function settle(layer: Place[], wanted: number[], weights: number[]): void {
  const offset: number[] = [];
  layer.forEach((place, at) => {
    const before = layer[at - 1];
    offset.push(before ? offset[at - 1]! + (before.size + place.size) / 2 + GAP.across : 0);
  });
  // Pool adjacent violators: neighbours that would overlap become a block at their common mean.
  const blocks: { sum: number; weight: number; count: number }[] = [];
  layer.forEach((_, at) => {
    let block = { sum: (wanted[at]! - offset[at]!) * weights[at]!, weight: weights[at]!, count: 1 };
    for (
      let before = blocks.at(-1);
      before && before.sum / before.weight >= block.sum / block.weight;
      before = blocks.at(-1)
    ) {
      blocks.pop();
      block = {
        sum: before.sum + block.sum,
        weight: before.weight + block.weight,
        count: before.count + block.count,
      };
    }
    blocks.push(block);
  });
  let at = 0;
  for (const { sum, weight, count } of blocks)
    for (let i = 0; i < count; i++, at++) layer[at]!.x = sum / weight + offset[at]!;
}

/** How far from the middle of its target each edge ends, so that several do not end in one point. */
function portsOf(routes: Place[][], across: number[]): number[] {
  const ports: number[] = routes.map(() => 0);
  const into = new Map<Place, number[]>();
  routes.forEach((route, edge) => into.set(route.at(-1)!, [...(into.get(route.at(-1)!) ?? []), edge]));
  for (const [target, edges] of into) {
    const from = (edge: number) => routes[edge]!.at(-2)!.x;
    const step = Math.min(14, across[target.node]! / (edges.length + 1));
    edges
      .sort((one, two) => from(one) - from(two))
      .forEach((edge, at) => (ports[edge] = (at - (edges.length - 1) / 2) * step));
  }
  return ports;
}

function mean(values: number[], fallback: number): number {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : fallback;
}
