import { expect, test } from "vitest";
import { fact, firstClause, plural } from "../src/text";

test.each([
  ["Use torch.compile: it fuses chains of ops.", "Use torch.compile"],
  ["Run the model under torch.autocast, which keeps float32 weights.", "Run the model under torch.autocast"],
  ["Convert inputs with .to(memory_format=x) (x_3d for volumes): faster.", "Convert inputs with .to(memory_format=x)"],
  ["Fold it.", "Fold it"],
])("the first clause of %j", (advice, clause) => expect(firstClause(advice)).toBe(clause));

test("a title without the places it lists", () => {
  expect(fact("3 ops can be fused: bn1, relu and 9 more")).toBe("3 ops can be fused");
  expect(fact("53 convolutions; torch.max_pool2d is slow")).toBe("53 convolutions");
});

test("nouns agree with their number", () => {
  expect([plural(1, "module"), plural(2, "module")]).toEqual(["1 module", "2 modules"]);
});
