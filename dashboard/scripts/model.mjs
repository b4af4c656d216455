// An OpenAI-compatible server with one reply per model, for the ways in which a call ends that recorded replies cannot show.
import { createServer } from 'node:http';

const choice = (message, finish_reason = 'stop') => [200, { id: 'demo', object: 'chat.completion', choices: [{ index: 0, message: { role: 'assistant', content: null, ...message }, finish_reason }], usage: { prompt_tokens: 42, completion_tokens: 9 } }];

const ANSWERS = {
  'short-window': choice({ content: '{"summary": "The disk of build' }, 'length'),
  cautious: choice({ refusal: 'I cannot help with this request.' }),
  missing: [404, { error: { message: 'the model `missing` is not loaded' } }],
};

function answer(incoming, response) {
  let body = '';
  incoming.on('data', (text) => (body += text));
  incoming.on('end', () => {
    const [status, value] = ANSWERS[body ? JSON.parse(body).model : ''] ?? [200, { data: Object.keys(ANSWERS).map((id) => ({ id })) }];
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  });
}

/** Starts the server, which does not keep the process alive, and resolves with its base URL. */
export function startModel() {
  const server = createServer(answer);
  server.unref();
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${server.address().port}/v1`)));
}
