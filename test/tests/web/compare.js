// Both pictures on canvases of 64 by 48, and the mean difference of their colors.
const [one, other, done] = arguments;
const pixels = async data => {
  const image = new Image();
  image.src = 'data:image/png;base64,' + data;
  await image.decode();
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [64, 48];
  const context = canvas.getContext('2d');
  context.imageSmoothingQuality = 'high';
  context.drawImage(image, 0, 0, 64, 48);
  return context.getImageData(0, 0, 64, 48).data;
};
Promise.all([pixels(one), pixels(other)]).then(([a, b]) => {
  let sum = 0;
  a.forEach((value, at) => sum += Math.abs(value - b[at]));
  done(sum / a.length / 255);
}).catch(error => done(String(error)));
