import { createServer } from "node:http";
import { json } from "node:stream/consumers";

const server = createServer(async (request, response) => {
  const task = (await json(request)).data;
  console.log(`${task.key} is due, attempt ${task.attempt}`);
  response.writeHead(204).end(); // any 2xx: done
});

server.listen(process.env.PORT ?? 8802, "127.0.0.1");
