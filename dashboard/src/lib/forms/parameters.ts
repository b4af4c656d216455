import { isSame } from '$lib/agents/patch';
import { isObject, jsonLine, parseNumber } from '$lib/json/exact';

/** A parameter that a plain form can edit. */
export interface Field {
  name: string;
  kind: 'text' | 'long' | 'integer' | 'number' | 'boolean' | 'choice' | 'list';
  required: boolean;
  /** Whether the form accepts an empty text or list as the value of a required parameter. */
  mayBeEmpty: boolean;
  description: string;
  choices: unknown[];
  /** Text of the default value; empty without one. */
  initial: string;
}

type Schema = Record<string, unknown>;

/** Keywords that describe parameters for which a form has no field. */
const BEYOND_FORMS = ['allOf', 'anyOf', 'oneOf', 'if', '$ref', 'patternProperties', 'dependentSchemas'];

function kindOf(schema: Schema, name: string): Field['kind'] | null {
  // A list of choices shows the string "5" like the number 5, and an empty string like no choice.
  if (Array.isArray(schema.enum)) return new Set(['', ...schema.enum.map(choiceText)]).size === schema.enum.length + 1 ? 'choice' : null;
  switch (schema.type) {
    case 'string':
      return ['prompt', 'text', 'message', 'task'].includes(name) ? 'long' : 'text';
    case 'integer':
    case 'number':
    case 'boolean':
      return schema.type;
    case 'array':
      return isObject(schema.items) && schema.items.type === 'string' && !schema.items.enum ? 'list' : null;
    default:
      return null;
  }
}

/** Returns the fields of a simple object schema; null if the schema needs the editor. */
export function fieldsOf(schema: unknown): Field[] | null {
  if (schema === undefined || schema === null) {
    return [{ name: 'prompt', kind: 'long', required: true, mayBeEmpty: false, description: '', choices: [], initial: '' }];
  }
  if (!isObject(schema) || !isObject(schema.properties)) return null;
  if (BEYOND_FORMS.some((keyword) => Object.hasOwn(schema, keyword)) || isObject(schema.additionalProperties)) return null;
  const required: unknown[] = Array.isArray(schema.required) ? schema.required : [];
  if (required.some((name) => typeof name !== 'string' || !Object.hasOwn(schema.properties as Schema, name))) return null;
  const fields: Field[] = [];
  for (const [name, property] of Object.entries(schema.properties)) {
    const kind = isObject(property) ? kindOf(property, name) : null;
    // Assigning to `__proto__` sets no member.
    if (!kind || !isObject(property) || name === '__proto__') return null;
    const least = kind === 'list' ? property.minItems : property.minLength;
    fields.push({
      name,
      kind,
      required: required.includes(name),
      mayBeEmpty: ['text', 'long', 'list'].includes(kind) && (least === undefined || least === 0),
      description: typeof property.description === 'string' ? property.description : '',
      choices: Array.isArray(property.enum) ? property.enum : [],
      initial: property.default === null && kind !== 'choice' ? '' : textOf(kind, property.default),
    });
  }
  return fields;
}

function valueOf(field: Field, text: string): unknown {
  switch (field.kind) {
    case 'integer':
    case 'number':
      return parseNumber(text);
    case 'boolean':
      return text === 'true';
    case 'choice':
      return field.choices.find((choice) => choiceText(choice) === text) ?? text;
    case 'list':
      return text.split('\n').map((line) => line.trim()).filter(Boolean);
    default:
      return text;
  }
}

export function choiceText(choice: unknown): string {
  return typeof choice === 'string' ? choice : jsonLine(choice);
}

/** Returns the text of a field. Every object inherits members such as `constructor`. */
export function textFor(name: string, texts: Record<string, string>): string {
  return Object.hasOwn(texts, name) ? (texts[name] ?? '') : '';
}

/** Builds the parameters of a run from the texts of a form. Empty optional fields are left out. */
export function parametersOf(fields: Field[], texts: Record<string, string>): Record<string, unknown> {
  const given = fields.map((field) => [field, textFor(field.name, texts)] as const).filter(([field, text]) => text !== '' || (field.required && field.mayBeEmpty));
  return Object.fromEntries(given.map(([field, text]) => [field.name, valueOf(field, text)]));
}

/** Returns the text that a field of this kind has for a value. */
function textOf(kind: Field['kind'], value: unknown): string {
  if (value === undefined) return '';
  if (kind === 'choice') return choiceText(value);
  if (kind === 'list' && Array.isArray(value)) return value.join('\n');
  return typeof value === 'string' ? value : jsonLine(value);
}

/** Returns the texts of a form for the parameters of an earlier run; null if the form cannot express them. */
export function textsOf(fields: Field[], parameters: Record<string, unknown>): Record<string, string> | null {
  const texts = Object.fromEntries(fields.map(({ name, kind }) => [name, Object.hasOwn(parameters, name) ? textOf(kind, parameters[name]) : '']));
  return isSame(parametersOf(fields, texts), parameters) ? texts : null;
}

/** Returns the texts of a form whose fields have changed: what a person typed stays, and other fields have their defaults. */
export function withDefaults(fields: Field[], texts: Record<string, string>, before: Field[]): Record<string, string> {
  const defaults = new Map(before.map(({ name, initial }) => [name, initial]));
  const isTyped = (name: string) => Object.hasOwn(texts, name) && texts[name] !== defaults.get(name);
  return { ...texts, ...Object.fromEntries(fields.filter(({ name }) => !isTyped(name)).map(({ name, initial }) => [name, initial])) };
}
